"""Which ids are near enough to be dealt, by the kubelet's rules with topologyManagerPolicy best-effort.

It answers for one resource alone (pkg/kubelet/cm/devicemanager: generateDeviceTopologyHints, filterByAffinity,
devicesToAllocate). It must not merge hints of several resources, nor ask anybody.
"""

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, combinations

import msgspec


class ListedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One id of a plugin's list. ``numa`` is None where no TopologyInfo came with it."""

    id: str
    healthy: bool
    numa: frozenset[int] | None = None


class Affinity(msgspec.Struct, frozen=True, kw_only=True):
    """The available ids, split: in the NUMA nodes that the hint names, and the others."""

    aligned: frozenset[str]
    others: frozenset[str]


def by_affinity(available: Collection[ListedDevice], count: int, numa_nodes: Sequence[int]) -> Affinity:
    """Splits by the first mask of NUMA nodes that can serve ``count`` alone: fewest nodes first, then lowest.

    Where no mask can, as when the ids carry no topology, nothing is aligned: best-effort goes on without.
    """
    every = frozenset(device.id for device in available)
    near = (_within(mask, available) for mask in _masks(numa_nodes))
    aligned = next((ids for ids in near if len(ids) >= count), frozenset[str]())
    return Affinity(aligned=aligned, others=every - aligned)


def first_of(tiers: Iterable[frozenset[str]], count: int, rng: random.Random) -> tuple[str, ...]:
    """``count`` ids, sorted: each tier is used up before the next, at random inside, as in Go's maps."""
    shuffled = (rng.sample(sorted(tier), len(tier)) for tier in tiers)
    ids = dict.fromkeys(chain.from_iterable(shuffled))
    return tuple(sorted(list(ids)[:count]))


def _masks(numa_nodes: Sequence[int]) -> Iterator[frozenset[int]]:
    sizes = range(1, len(numa_nodes) + 1)
    return (frozenset(mask) for size in sizes for mask in combinations(sorted(numa_nodes), size))


def _within(mask: frozenset[int], devices: Collection[ListedDevice]) -> frozenset[str]:
    return frozenset(device.id for device in devices if device.numa is not None and device.numa & mask)
