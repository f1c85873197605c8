"""What the kubelet counts of GPUs: their ids, where it believes each to be, and in whose hands.

The kubelet's checkpoint says at once which ids are healthy and which are held; its PodResources say, a while
later, where the healthy ones are. It must not count HCAs, nor ask anybody.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from railside_agent.gpu_ids import locate
from railside_agent.holders import Checkpoint, Entry, HeldId
from railside_agent.pod_resources import Allocatable, AllocatableDevice
from railside_proto.machine import Gpu, Machine, PciAddress
from railside_proto.record import Count
from railside_proto.resource_patterns import matching

Nodes = tuple[int, ...]


class GpuId(msgspec.Struct, frozen=True, kw_only=True):
    """One id of a resource whose ids are GPUs, or parts of them."""

    id: str
    resource: str
    numa_nodes: Nodes
    """Where the kubelet believes it to be; empty for one that came without a hint."""
    gpu: PciAddress | None
    """None where the path is unknown."""
    healthy: bool
    held: bool


def gpu_ids(
    machine: Machine,
    checkpoint: Checkpoint,
    living: Iterable[Entry],
    allocatable: Allocatable | None,
    patterns: tuple[str, ...],
) -> tuple[GpuId, ...]:
    """Every id of the resources that ``patterns`` name; ``living`` is what pods hold that are not over."""
    can_give = allocatable.devices if allocatable else {}
    named = {*checkpoint.registered, *can_give, *(one.resource for one in checkpoint.entries)}
    held: dict[str, list[HeldId]] = {}
    for entry in living:
        held.setdefault(entry.resource, []).extend(entry.ids)
    return tuple(
        one
        for resource in sorted(named)
        if matching(resource, patterns)
        for one in _Resource(
            resource, machine, checkpoint, held.get(resource, ()), can_give.get(resource, ())
        ).ids()
    )


def counts(ids: Iterable[GpuId], machine: Machine, capacity: Mapping[str, int]) -> Iterator[Count]:
    """What the kubelet counts by resource and NUMA nodes; ``capacity`` is what the Node says of all its ids.

    The kubelet's accounts leave out what is ill, and its widths do not: where the capacity does not say that
    nothing is missing, each GPU of the machine counts as listed.
    """
    by_resource: dict[str, list[GpuId]] = {}
    for one in ids:
        by_resource.setdefault(one.resource, []).append(one)
    for resource, those in by_resource.items():
        missing = capacity.get(resource, len(those) + 1) > len(those)
        listed = Counter(one.numa_nodes for one in those)
        # The greater of the two for each key.
        for nodes, count in sorted((listed | _by_the_machine(those, machine) if missing else listed).items()):
            here = [one for one in those if one.numa_nodes == nodes]
            yield Count(
                resource=resource,
                numa_nodes=nodes,
                listed=count,
                held=sum(one.held for one in here),
                free=sum(one.healthy and not one.held for one in here),
            )


def lacks_places(
    checkpoint: Checkpoint | None, allocatable: Allocatable | None, patterns: tuple[str, ...]
) -> bool:
    """Whether the kubelet knows healthy GPUs of which it has not said where they are."""
    can_give = allocatable.devices if allocatable else {}
    return any(
        ids - {one.id for one in can_give.get(resource, ())}
        for resource, ids in (checkpoint.registered if checkpoint else {}).items()
        if matching(resource, patterns)
    )


class _Resource:
    """One resource's ids."""

    def __init__(
        self,
        resource: str,
        machine: Machine,
        checkpoint: Checkpoint,
        held: Iterable[HeldId],
        can_give: Iterable[AllocatableDevice],
    ) -> None:
        self._resource = resource
        self._machine = machine
        self._held = {one.id for one in held}
        recorded = {name: one.numa_nodes for name, one in checkpoint.held(resource).items()}
        told = {one.id: one.numa_nodes for one in can_give}
        self._places: dict[str, Nodes] = recorded | told
        self._healthy = checkpoint.registered.get(resource, frozenset(told))
        self._names = sorted(self._healthy | self._held | told.keys())

    def ids(self) -> Iterator[GpuId]:
        for located in locate(self._names, self._machine):
            yield GpuId(
                id=located.id,
                resource=self._resource,
                numa_nodes=self._nodes(located.id, located.gpu),
                gpu=located.gpu.address if located.gpu else None,
                healthy=located.id in self._healthy,
                held=located.id in self._held,
            )

    def _nodes(self, name: str, gpu: Gpu | None) -> Nodes:
        """What the kubelet says, else what its plugin reads from the same sysfs as we do."""
        if name in self._places:
            return self._places[name]
        hinted = any(self._places.values()) or not self._places
        return (gpu.numa_node,) if hinted and gpu is not None and gpu.numa_node is not None else ()


def _by_the_machine(those: list[GpuId], machine: Machine) -> Counter[Nodes]:
    """How many ids there would be if each GPU had as many as the most that one has; none where nobody can tell."""
    shares = Counter(one.gpu for one in those)
    if None in shares:
        return Counter()
    vendors = {gpu.vendor for gpu in machine.gpus if gpu.address in shares}
    hinted = any(one.numa_nodes for one in those)
    places = (_place(gpu) if hinted else () for gpu in machine.gpus if gpu.vendor in vendors)
    return Counter({nodes: count * max(shares.values()) for nodes, count in Counter(places).items()})


def _place(gpu: Gpu) -> Nodes:
    return () if gpu.numa_node is None else (gpu.numa_node,)
