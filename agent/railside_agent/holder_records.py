"""Who holds what, as a node's record tells it: by the kubelet's checkpoint, by bindings, and by resource claims.

It must not tell of pods that are known to be over, nor leave out a container that runs on though the kubelet has
forgotten it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from railside_agent.cross_check import claimed_by
from railside_agent.dealt_gpus import GpuId
from railside_agent.holders import Entry
from railside_agent.pod_resources import NodeHoldings
from railside_agent.pods import Pods
from railside_proto.machine import Machine, PciAddress, by_address
from railside_proto.pool import Binding, Pair
from railside_proto.record import Count, HolderRecord, PairRecord, PodHolding

Key = tuple[str, str]
"""Pod and container."""

IdKey = tuple[str, str]
"""Resource and id."""

Places = Mapping[IdKey, tuple[int, ...]]


class _Hand(msgspec.Struct, kw_only=True):
    """What one container has, being put together."""

    ids: set[IdKey] = msgspec.field(default_factory=set)
    gpus: set[PciAddress] = msgspec.field(default_factory=set)
    hcas: set[PciAddress] = msgspec.field(default_factory=set)
    pairs: set[Pair] = msgspec.field(default_factory=set)

    def take(self, binding: Binding) -> None:
        self.hcas.update(binding.hcas)
        self.pairs.update(binding.pairs)


class Hands:
    """All containers of a node that hold something that is counted."""

    def __init__(self, places: Places, gpus: Iterable[GpuId], pods: Pods) -> None:
        """``places`` are those of all ids that are counted; other ids are nobody's business here."""
        self._places = places
        self._gpu_of = {(one.resource, one.id): one.gpu for one in gpus if one.gpu is not None}
        self._pods = pods
        self._hands: dict[Key, _Hand] = {}

    def dealt(self, entries: Iterable[Entry]) -> None:
        """Note what the checkpoint tells."""
        for entry in entries:
            ids = {(entry.resource, name) for name in entry.names} & self._places.keys()
            if ids:
                hand = self._of(entry.pod, entry.container)
                hand.ids |= ids
                hand.gpus.update(self._gpu_of[one] for one in ids if one in self._gpu_of)

    def bound(self, resource: str, bindings: Iterable[Binding]) -> None:
        """Note what seats mean; whoever has seats that no entry names is told without a container's name."""
        by_seats: dict[frozenset[IdKey], list[Key]] = {}
        for key, hand in self._hands.items():
            by_seats.setdefault(frozenset(one for one in hand.ids if one[0] == resource), []).append(key)
        for binding in bindings:
            of_these = by_seats.get(frozenset((resource, seat) for seat in binding.seats), ())
            pod = self._uid(binding.pod) if binding.pod else None
            # Init and main containers of one pod may have the same seats.
            keys = [key for key in of_these if pod in {None, key[0]}] or [(pod or "", "")]
            for key in keys:
                self._hands.setdefault(key, _Hand()).take(binding)

    def claimed(self, said: NodeHoldings | None, machine: Machine) -> None:
        """Note the GPUs of resource claims, of containers whose pods are known."""
        by_name = {(pod.namespace, pod.name): pod for pod in self._pods.pods}
        for holding in said.containers if said else ():
            pod = by_name.get((holding.namespace, holding.pod))
            gpus = claimed_by(holding, machine)
            if gpus and pod is not None and not pod.ended:
                self._of(pod.uid, holding.container).gpus |= gpus

    def records(self) -> Iterator[HolderRecord]:
        """One for each container, sorted by pod and container."""
        for (pod, container), hand in sorted(self._hands.items()):
            yield HolderRecord(
                pod=pod,
                container=container,
                held=tuple(self._held(hand.ids)),
                hcas=tuple(sorted(hand.hcas, key=by_address)),
                gpus=tuple(sorted(hand.gpus, key=by_address)),
                pairs=tuple(
                    PairRecord(gpu=one.gpu, hca=one.hca, path=one.path.name)
                    for one in sorted(hand.pairs, key=lambda one: (one.gpu, one.hca))
                ),
            )

    def pods(self) -> Iterator[PodHolding]:
        """What each pod has by ids, sorted by pod: those that several of its containers share count once."""
        by_pod: dict[str, set[IdKey]] = {}
        for (pod, _), hand in self._hands.items():
            by_pod.setdefault(pod, set()).update(hand.ids)
        return (PodHolding(pod=pod, held=tuple(self._held(ids))) for pod, ids in sorted(by_pod.items()) if ids)

    def _of(self, pod: str, container: str) -> _Hand:
        return self._hands.setdefault((self._uid(pod), container), _Hand())

    def _uid(self, pod: str) -> str:
        """The API server's; the kubelet's checkpoint has another for a static pod."""
        known = self._pods.by_uid.get(pod)
        return known.uid if known else pod

    def _held(self, ids: Iterable[IdKey]) -> Iterator[Count]:
        counted = Counter((resource, self._places[resource, name]) for resource, name in ids)
        for (resource, nodes), count in sorted(counted.items()):
            yield Count(resource=resource, numa_nodes=nodes, listed=count, held=count, free=0)
