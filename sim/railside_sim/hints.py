"""Which sets of NUMA nodes could serve a request: the device manager's topology hints for one resource.

It answers for masks, widths and feasibility (pkg/kubelet/cm/devicemanager: topology_hints.go). It must not merge
hints of several resources, nor ask anybody.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

import msgspec

from railside_sim.device import Listed, ListedDevice

Mask = frozenset[int]
"""NUMA nodes."""


class Hint(msgspec.Struct, frozen=True, kw_only=True):
    """One mask that could serve; ``mask`` is None for an opinion about no node in particular."""

    mask: Mask | None
    preferred: bool


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """``count`` ids out of ``available`` and ``reusable``, which must all be within the mask."""

    count: int
    available: Collection[ListedDevice]
    reusable: Collection[ListedDevice] = ()


def masks(numa_nodes: Sequence[int]) -> Iterator[Mask]:
    """Every set of the nodes: fewest first, then in the nodes' order."""
    sizes = range(1, len(numa_nodes) + 1)
    return (frozenset(mask) for size in sizes for mask in combinations(numa_nodes, size))


def has_topology(listed: Listed) -> bool:
    """Whether the resource has an opinion: one id with a NUMA node speaks for all."""
    return any(device.numa for device in listed.values())


def device_hints(listed: Listed, demand: Demand, numa_nodes: Sequence[int]) -> tuple[Hint, ...]:
    """The masks that can serve ``demand``; those as narrow as the whole list allows are preferred.

    The width counts every id of the list, unhealthy and held ones too. Empty where no mask can.
    """
    every = tuple(masks(numa_nodes))
    wide_enough = (len(mask) for mask in every if _count(mask, listed.values()) >= demand.count)
    width = min(wide_enough, default=len(numa_nodes))
    return tuple(Hint(mask=mask, preferred=len(mask) == width) for mask in every if _can_serve(mask, demand))


def _can_serve(mask: Mask, demand: Demand) -> bool:
    bound = [device for device in demand.reusable if device.numa is not None]
    return _count(mask, bound) == len(bound) and len(bound) + _count(mask, demand.available) >= demand.count


def _count(mask: Mask, devices: Collection[ListedDevice]) -> int:
    """A device of several nodes counts wherever one of them is in the mask; one of none counts nowhere."""
    return sum(bool(device.numa and device.numa & mask) for device in devices)
