"""What a pod asks of its node: devices, and CPUs and memory of its own, by the rules of the kubelet (1.34).

It answers for the spec as the API server gives it, with the defaults filled in: what was asked when the pod was
admitted, not what a resize has made of it. Overhead and ephemeral containers ask for no devices. It must not know
nodes, nor who offers a resource.
"""

import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from railside_proto.decoding import UNDECODABLE
from railside_proto.names import CPU_RESOURCE, MEMORY_RESOURCE
from railside_proto.quantity import BILLION, MOST, parse, round_up

Counts: TypeAlias = tuple[tuple[str, int], ...]
"""Resources and how many of each, sorted."""

_QOS_RESOURCES: Final = (CPU_RESOURCE, MEMORY_RESOURCE)
_MILLI: Final = BILLION // 1000
_UNCOUNTABLE: Final = MOST * BILLION
_ALWAYS: Final = "Always"
_SHOWN: Final = 40


class Resources(msgspec.Struct, frozen=True):
    """What a container, or a pod as a whole, asks for at least and may use at most."""

    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """The few fields of a container that count here."""

    name: str
    resources: Resources = Resources()
    restart_policy: str | None = None


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The few fields of a pod's ``spec`` that count here, as the API server spells them."""

    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    resources: Resources | None = None


class Kind(enum.StrEnum):
    """How long a container lives beside the others."""

    INIT = "init"
    """It ends before the next begins, which may use its devices again."""
    SIDECAR = "sidecar"
    """An init container that stays."""
    MAIN = "main"


class ContainerAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What one container asks for."""

    name: str
    kind: Kind
    counts: Counts = ()
    """Extended resources, 1 at least of each."""
    zeros: tuple[str, ...] = ()
    """Extended resources that it names and wants 0 of, sorted: the kubelet aligns these with the others all the
    same, one NUMA node wide, so that under the policy ``restricted`` they forbid whatever is wider."""
    cpus: int = 0
    """CPUs that a static CPU manager gives to it alone."""
    memory_bytes: int = 0
    """What a static memory manager sets aside for it; huge pages are not among it."""

    def count(self, resource: str) -> int:
        """How many of ``resource``."""
        return next((count for name, count in self.counts if name == resource), 0)


class PodAsk(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """What a pod asks for: the same value for all pods of one making, and quick to look up."""

    guaranteed: bool
    """Whether its QoS class is Guaranteed. Devices are aligned for every class."""
    containers: tuple[ContainerAsk, ...]
    """In the order in which the kubelet deals: init containers and sidecars as written, then the main ones."""

    def total(self) -> Counts:
        """What the pod needs of each extended resource: what the scope ``pod`` aligns at once."""
        names = {name for one in self.containers for name, _ in one.counts}
        return tuple((name, self.most_at_once(name)) for name in sorted(names))

    def zeros(self) -> tuple[str, ...]:
        """Extended resources that the scope ``pod`` aligns although the pod wants none of them, sorted."""
        named = {name for one in self.containers for name in one.zeros}
        return tuple(sorted(named - {name for one in self.containers for name, _ in one.counts}))

    def most_at_once(self, resource: str) -> int:
        """How many of ``resource`` the pod needs at its hungriest moment."""
        return self._most(lambda one: one.count(resource))

    @property
    def cpus(self) -> int:
        """CPUs of its own at its hungriest moment (podGuaranteedCPUs)."""
        return self._most(lambda one: one.cpus)

    @property
    def memory_bytes(self) -> int:
        """Memory that is set aside for it at its hungriest moment."""
        return self._most(lambda one: one.memory_bytes)

    def _most(self, need: Callable[[ContainerAsk], int]) -> int:
        """The rule of component-helpers' PodLimits: an init container runs beside the sidecars begun before it."""
        staying = hungriest = 0
        for one in self.containers:
            needed = staying + need(one)
            hungriest = max(hungriest, needed)
            staying = staying if one.kind is Kind.INIT else needed
        return hungriest


class Nonsense(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that no kubelet can be asked to run."""

    sentence: str
    """What is wrong with it, without a full stop."""


def read_pod_ask(spec: bytes | msgspec.Raw) -> PodAsk | Nonsense:
    """What the pod asks for whose ``spec`` is this JSON."""
    try:
        return pod_ask(_DECODER.decode(spec))
    except UNDECODABLE as error:
        return Nonsense(sentence=f"the pod's spec cannot be read: {error}")


def pod_ask(spec: PodSpec) -> PodAsk | Nonsense:
    """What a pod of this ``spec`` asks for.

    Devices come from the limits, as the device manager reads them, each container's rounded up. CPUs and memory
    come from the requests, and only for Guaranteed pods without resources of the pod as a whole: with these the
    static managers of 1.34 neither give hints nor set anything aside, though devices are aligned as ever.
    """
    for owner, resources in _all_resources(spec):
        wrong = _wrong(resources.limits) or _wrong(resources.requests)
        if wrong is not None:
            return Nonsense(sentence=f"{owner} asks for {wrong}")
    guaranteed = _is_guaranteed(spec)
    alone = guaranteed and not _has_pod_level(spec)
    return PodAsk(guaranteed=guaranteed, containers=tuple(_ask(*one, alone=alone) for one in _in_order(spec)))


_DECODER: Final = msgspec.json.Decoder(PodSpec)


def _in_order(spec: PodSpec) -> Iterator[tuple[Container, Kind]]:
    for one in spec.init_containers or ():
        yield one, Kind.SIDECAR if one.restart_policy == _ALWAYS else Kind.INIT
    for one in spec.containers or ():
        yield one, Kind.MAIN


def _all_resources(spec: PodSpec) -> Iterator[tuple[str, Resources]]:
    if spec.resources is not None:
        yield "the pod", spec.resources
    for one, _ in _in_order(spec):
        yield f"container {one.name}", one.resources


def _wrong(asked: dict[str, str | int | float] | None) -> str | None:
    """The first of what counts that nobody can ask for. All else is the API server's affair."""
    for name, quantity in (asked or {}).items():
        if name in _QOS_RESOURCES or _is_extended(name):
            parts = parse(quantity)
            if parts is None or not 0 <= parts < _UNCOUNTABLE:
                return f"{_shown(quantity)} of {name}, which is {_oddity(parts)}"
    return None


def _oddity(parts: int | None) -> str:
    if parts is None:
        return "no quantity"
    return "less than nothing" if parts < 0 else "more than can be counted"


def _shown(quantity: str | float) -> str:
    text = str(quantity)
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _is_extended(name: str) -> bool:
    """Whether a plugin may register ``name`` (IsExtendedResourceName, for names that the API server took)."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _is_guaranteed(spec: PodSpec) -> bool:
    """Whether ComputePodQOS says Guaranteed: resources of the pod as a whole count instead of its containers'.

    What a pod requests as a whole is taken as the API server filled it in.
    """
    every = [one.resources for one, _ in _in_order(spec)] if spec.resources is None else [spec.resources]
    return bool(every) and all(_is_settled(every, name) for name in _QOS_RESOURCES)


def _is_settled(every: Sequence[Resources], name: str) -> bool:
    """Whether each of ``every`` has a limit of ``name``, and all request as much as they may use."""
    limits = [_parts(one.limits, name) for one in every]
    return all(limits) and sum(limits) == sum(_requested(one, name) for one in every)


def _requested(resources: Resources, name: str) -> int:
    """What is requested; the API server requests the limit where nobody says (SetDefaults_Pod)."""
    return _parts(resources.requests if name in (resources.requests or {}) else resources.limits, name)


def _parts(asked: dict[str, str | int | float] | None, name: str) -> int:
    return parse((asked or {}).get(name, 0)) or 0


def _has_pod_level(spec: PodSpec) -> bool:
    """IsPodLevelResourcesSet: the API server lets nothing through that would not count."""
    return spec.resources is not None and bool(spec.resources.requests or spec.resources.limits)


def _ask(one: Container, kind: Kind, *, alone: bool) -> ContainerAsk:
    limits = one.resources.limits or {}
    every = sorted((name, round_up(_parts(limits, name), BILLION)) for name in limits if _is_extended(name))
    return ContainerAsk(
        name=one.name,
        kind=kind,
        counts=tuple((name, count) for name, count in every if count),
        zeros=tuple(name for name, count in every if not count),
        cpus=_whole_cpus(_requested(one.resources, CPU_RESOURCE)) if alone else 0,
        memory_bytes=round_up(_requested(one.resources, MEMORY_RESOURCE), BILLION) if alone else 0,
    )


def _whole_cpus(parts: int) -> int:
    """How many CPUs guaranteedCPUs gives: none for a request that is not whole, counted in thousandths."""
    cpus, rest = divmod(round_up(parts, _MILLI), 1000)
    return 0 if rest else cpus
