"""Where a node's free GPUs and HCAs sit, and how near they come to each other whichever GPUs a pod is dealt.

It answers with the same pairing as the agent makes at a container's start (``railside_proto.pairing``). It must
not know pods.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, islice
from typing import Final

import msgspec

from railside_extender.room import Mask, mask_of
from railside_proto.machine import Function, PathClass, PciAddress, path_class
from railside_proto.pairing import Candidate, choose
from railside_proto.record import DeviceKind, DeviceRecord, Record

MOST_CHOICES: Final = 200
"""Choices of GPUs that are looked through; where a node leaves more, the nearest is not promised."""


class Place(msgspec.Struct, frozen=True):
    """A free device: the kubelet's NUMA nodes, the kernel's, and the bridges above it."""

    mask: Mask
    """Where the kubelet believes it to be."""
    numa_node: int | None
    path: tuple[str, ...]


class Layout(msgspec.Struct, frozen=True, cache_hash=True):
    """The free devices of one node. Nodes of one machine type with the same ones free are equal."""

    gpus: tuple[Place, ...] = ()
    hcas: tuple[Place, ...] = ()

    def within(self, mask: Mask) -> "Layout":
        """Those that the kubelet may deal from ``mask``."""
        return Layout(
            tuple(one for one in self.gpus if one.mask & mask), tuple(one for one in self.hcas if one.mask & mask)
        )


def layout(record: Record, resource: str, *, whole: bool = False) -> Layout:
    """The layout that ``record`` tells, HCAs of ``resource`` alone; ``whole``: as if everything were free."""
    nodes = tuple(node.number for node in record.numa_nodes)
    free = [one for one in record.devices if one.free or whole]
    gpus = (_place(one, nodes) for one in free if one.kind is DeviceKind.GPU)
    hcas = (_place(one, nodes) for one in free if one.kind is DeviceKind.HCA and one.resource == resource)
    return Layout(tuple(gpus), tuple(hcas))


@functools.lru_cache(maxsize=1 << 12)
def worst_paths(free: Layout, gpus: int, hcas: int) -> tuple[PathClass, ...] | None:
    """Path classes of the pairs that a container of so many can count on, nearest first.

    It is dealt any GPUs, and then the HCAs that are nearest to these. None where it does not fit, or where there
    are too many choices to say.
    """
    if len(free.gpus) < gpus or len(free.hcas) < hcas:
        return None
    choices = list(islice(gpu_choices(free, gpus), MOST_CHOICES + 1))
    if len(choices) > MOST_CHOICES:
        return None
    found = (_paths(choice, free.hcas, hcas) for choice in choices)
    # The worst is the one whose farthest pair is farthest.
    return max(found, key=lambda paths: paths[::-1], default=None)


def _paths(gpus: Sequence[Place], hcas: Sequence[Place], count: int) -> tuple[PathClass, ...]:
    served = [_function(one, f"g{number}") for number, one in enumerate(gpus)]
    candidates = [Candidate(hca=_function(one, f"h{number}"), zone="") for number, one in enumerate(hcas)]
    chosen = choose(served, candidates, {"": count})
    return chosen.classes if chosen else ()


_Row = tuple[PathClass, ...]
"""How far a GPU is from each HCA."""


def gpu_choices(free: Layout, count: int) -> Iterator[tuple[Place, ...]]:
    """Choices of ``count`` GPUs, of which one at least is as near to the HCAs as any choice, for each such choice.

    GPUs that are as far from each HCA are one and the same. So are groups of them between which it makes no
    difference to swap the HCAs beside them: the more is taken of the first, the better.
    """
    groups: dict[_Row, list[Place]] = {}
    for gpu in free.gpus:
        row = tuple(path_class(_function(gpu, "g"), _function(hca, "h")) for hca in free.hcas)
        groups.setdefault(row, []).append(gpu)
    yield from _taken(_alike(groups), count)


_Kind = list[list[Place]]
"""Groups that are alike."""


def _alike(groups: Mapping[_Row, list[Place]]) -> list[_Kind]:
    kinds: list[tuple[_Row, _Kind]] = []
    for row, gpus in groups.items():
        same = (kind for first, kind in kinds if len(kind[0]) == len(gpus) and _can_swap(first, row, groups))
        kind = next(same, None)
        if kind is None:
            kinds.append((row, [gpus]))
        else:
            kind.append(gpus)
    return [kind for _, kind in kinds]


def _can_swap(one: _Row, other: _Row, rows: Iterable[_Row]) -> bool:
    """Whether swapping the HCAs nearest to two groups swaps the groups, and leaves all others as they are."""
    own, theirs = ([index for index, path in enumerate(row) if path is min(row)] for row in (one, other))
    if len(own) != len(theirs) or not set(own).isdisjoint(theirs):
        return False
    order = list(range(len(one)))
    for here, there in zip(own, theirs, strict=True):
        order[here], order[there] = there, here
    swapped = {one: other, other: one}
    return all(tuple(row[index] for index in order) == swapped.get(row, row) for row in rows)


def _taken(kinds: Sequence[_Kind], count: int) -> Iterator[tuple[Place, ...]]:
    """Every way to take ``count`` GPUs, the more of a group the earlier it stands among those alike."""
    if not kinds:
        if count == 0:
            yield ()
        return
    groups = kinds[0]
    for amounts in combinations_with_replacement(range(len(groups[0]), -1, -1), len(groups)):
        if sum(amounts) <= count:
            own = [gpu for gpus, amount in zip(groups, amounts, strict=True) for gpu in gpus[:amount]]
            for rest in _taken(kinds[1:], count - sum(amounts)):
                yield (*own, *rest)


def _place(device: DeviceRecord, nodes: tuple[int, ...]) -> Place:
    return Place(mask_of(device.kubelet_numa_nodes, nodes), device.numa_node, device.path)


def _function(place: Place, name: str) -> Function:
    return Function(address=PciAddress(name), path=place.path, numa_node=place.numa_node)
