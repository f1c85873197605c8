"""What a pod asks of a node, as the node's kubelet will see it: units that are aligned one after the other.

It must not know what a node has.
"""

import functools

import msgspec

from railside_proto.names import CPU_RESOURCE
from railside_proto.podspec import ContainerAsk, Kind, PodAsk
from railside_proto.record import TopologyScope


class Unit(msgspec.Struct, frozen=True):
    """What is aligned together: a container, or with scope ``pod`` the whole pod."""

    wants: tuple[tuple[str, int], ...]
    """Counts by resource, sorted; exclusive CPUs are a resource, too."""
    kind: Kind = Kind.MAIN


@functools.lru_cache(maxsize=1 << 12)
def units(ask: PodAsk, scope: TopologyScope, aligned: frozenset[str]) -> tuple[Unit, ...]:
    """The units of a pod in the order of their admission, with those resources that are ``aligned`` alone.

    A container that names none of these is left out: nothing is decided about it.
    """
    match scope:
        case TopologyScope.POD:
            found = [Unit(_only(_whole(ask), aligned))]
        case TopologyScope.CONTAINER:
            found = [Unit(_only(_wants(one), aligned), one.kind) for one in ask.containers]
    return tuple(unit for unit in found if unit.wants)


def _wants(container: ContainerAsk) -> dict[str, int]:
    return {**dict.fromkeys(container.zeros, 0), **dict(container.counts), **_cpus(container.cpus)}


def _whole(ask: PodAsk) -> dict[str, int]:
    return {**dict.fromkeys(ask.zeros(), 0), **dict(ask.total()), **_cpus(ask.cpus)}


def _cpus(count: int) -> dict[str, int]:
    """No opinion comes from a CPU manager that has nothing to give; a device plugin's resource has one at 0."""
    return {CPU_RESOURCE: count} if count else {}


def _only(wants: dict[str, int], aligned: frozenset[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((name, count) for name, count in wants.items() if name in aligned))
