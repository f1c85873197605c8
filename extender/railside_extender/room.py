"""What a node's kubelet can still deal out, by sets of NUMA nodes: counts, and the masks that could serve.

It answers for widths and room as the kubelet counts them (pkg/kubelet/cm/devicemanager: topology_hints.go). It
must not know pods, nor merge what several resources say.
"""

import functools
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

MOST_SPLITS: Final = 4096
"""More than anybody goes through."""

Mask = int
"""NUMA nodes as bits: bit 2 is node 2."""

Split = tuple[int, ...]
"""How many ids of each group of a supply."""


class Group(msgspec.Struct, frozen=True):
    """Ids of one resource whose hints name the same NUMA nodes."""

    mask: Mask
    """Only nodes that the kubelet has; 0 for ids that carry no hint, or name none of these."""
    listed: int
    """All of them, the ill and the held, too."""
    free: int
    """Well, and in nobody's hands."""


class Supply(msgspec.Struct, frozen=True, cache_hash=True):
    """All ids of one resource of which one at least carries a hint."""

    groups: tuple[Group, ...]

    @property
    def free(self) -> Split:
        """What is free of each group."""
        return tuple(group.free for group in self.groups)


class Room(msgspec.Struct, frozen=True, cache_hash=True):
    """One node's supplies. Nodes with equal rooms are the same to every pod.

    Resources that carry no hints are left out: the kubelet has no opinion on where they come from, and how many
    there are in all is the scheduler's affair.
    """

    numa_nodes: tuple[int, ...]
    supplies: tuple[tuple[str, Supply], ...]
    """By resource, sorted."""

    def of(self, resource: str) -> Supply:
        """The supply of ``resource``. Raises KeyError where it is not ``aligned``."""
        for name, supply in self.supplies:
            if name == resource:
                return supply
        raise KeyError(resource)

    @property
    def aligned(self) -> frozenset[str]:
        """Resources that the kubelet aligns."""
        return frozenset(name for name, _ in self.supplies)


def mask_of(nodes: Iterable[int], known: Iterable[int]) -> Mask:
    """The mask of ``nodes``, as far as the kubelet knows them."""
    bits = 0
    for node in set(nodes) & set(known):
        bits |= 1 << node
    return bits


@functools.lru_cache(maxsize=256)
def masks(numa_nodes: tuple[int, ...]) -> tuple[Mask, ...]:
    """Every set of the nodes, fewest nodes first, then the lowest: the order in which the kubelet prefers them."""
    every: list[Mask] = [0]
    for node in numa_nodes:
        every += [mask | 1 << node for mask in every]
    return tuple(sorted(every[1:], key=lambda mask: (mask.bit_count(), mask)))


def listed_in(supply: Supply, mask: Mask) -> int:
    """How many ids the kubelet counts in ``mask``: one of several nodes counts wherever one of them is."""
    return sum(group.listed for group in supply.groups if group.mask & mask)


def free_within(supply: Supply, mask: Mask) -> int:
    """How many free ids are of ``mask`` alone: who is served elsewhere cannot take these."""
    return sum(group.free for group in supply.groups if group.mask and not group.mask & ~mask)


@functools.lru_cache(maxsize=1 << 16)
def width(supply: Supply, numa_nodes: tuple[int, ...], count: int) -> int:
    """How many NUMA nodes ``count`` ids take at least, by all that is listed; all of them where it never fits."""
    wide_enough = (mask.bit_count() for mask in masks(numa_nodes) if listed_in(supply, mask) >= count)
    return min(wide_enough, default=len(numa_nodes))


@functools.lru_cache(maxsize=1 << 14)
def splits(count: int, most: Split) -> tuple[Split, ...]:
    """Ways to take ``count`` ids out of groups that have ``most`` each; none where they have too few.

    All of them, or MOST_SPLITS where there are more.
    """
    return tuple(islice(_splits(count, most), MOST_SPLITS))


def _splits(count: int, most: Split) -> Iterator[Split]:
    if not most:
        if count == 0:
            yield ()
        return
    rest = sum(most[1:])
    for first in range(max(0, count - rest), min(count, most[0]) + 1):
        for others in _splits(count - first, most[1:]):
            yield (first, *others)
