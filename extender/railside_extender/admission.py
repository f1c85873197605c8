"""What a kubelet will do with a pod: every course that its admission can take, from a given room.

It answers for the strict policies of the topology manager, which turn pods away, and for how init containers hand
on what they had (pkg/kubelet/cm/topologymanager: policy_restricted.go, policy_single_numa_node.go; devicemanager:
devicesToAllocate). Where the kubelet chooses at random, all choices are followed. It must not know which pods are
on their way, and promises nothing for a room that changes.
"""

from collections.abc import Iterator
from itertools import product
from typing import Final

import msgspec

from railside_extender.demand import Unit
from railside_extender.room import Mask, Room, Split, Supply, mask_of, masks, splits, width
from railside_proto.podspec import Kind
from railside_proto.record import TopologyPolicy

MOST_COURSES: Final = 2048
"""A pod of so many containers that its admission can take more courses is not followed to the end."""

STRICT: Final = frozenset({TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE})
"""Policies that turn pods away; under the others nodes are a matter of taste."""


class Rule(msgspec.Struct, frozen=True):
    """How a kubelet aligns."""

    policy: TopologyPolicy
    closest: bool = False
    """Whether it prefers NUMA nodes that are near each other, so that any mask of the least width may win."""

    @property
    def is_strict(self) -> bool:
        """Whether it turns pods away."""
        return self.policy in STRICT


def suiting(room: Room, rule: Rule, unit: Unit) -> tuple[Mask, ...]:
    """Masks from which the kubelet would deal a container that comes first, the likeliest first."""
    return tuple(_Admission(room, rule).suiting(unit))


class _Stock(msgspec.Struct, frozen=True):
    """What is left of one resource in the middle of a pod's admission."""

    free: Split
    again: Split
    """Of init containers that have ended by then: the next container takes these first, and must be near all."""


_Course = tuple[_Stock, ...]
"""The stock of each supply of the room."""


def admissible(room: Room, rule: Rule, units: tuple[Unit, ...]) -> bool:
    """Whether the kubelet admits ``units``, one after the other, whichever ids it chooses."""
    if not rule.is_strict:
        return True
    return _Admission(room, rule).admits(units)


def widths(room: Room, unit: Unit) -> frozenset[int]:
    """How many NUMA nodes each resource of ``unit`` takes at least."""
    return frozenset(width(room.of(name), room.numa_nodes, count) for name, count in unit.wants)


class _Admission:
    def __init__(self, room: Room, rule: Rule) -> None:
        self._room = room
        self._rule = rule
        self._every = mask_of(room.numa_nodes, room.numa_nodes)
        self._index = {name: index for index, (name, _) in enumerate(room.supplies)}
        self._supplies: tuple[Supply, ...] = tuple(supply for _, supply in room.supplies)

    def suiting(self, unit: Unit) -> list[Mask]:
        """As the function of that name."""
        return self._suiting(self._start(), [(self._index[name], count) for name, count in unit.wants])

    def _start(self) -> _Course:
        return tuple(_Stock(one.free, (0,) * len(one.groups)) for one in self._supplies)

    def admits(self, units: tuple[Unit, ...]) -> bool:
        """Whether no course turns any of ``units`` away."""
        courses = {self._start()}
        for unit in units:
            after: set[_Course] = set()
            for course in courses:
                found = list(self._after(course, unit))
                if not found:
                    return False
                after.update(found)
                if len(after) > MOST_COURSES:
                    return False
            courses = after
        return True

    def _after(self, course: _Course, unit: Unit) -> Iterator[_Course]:
        """Where the course can go with one more container; nowhere where the kubelet turns it away."""
        wanted = [(self._index[name], count) for name, count in unit.wants]
        for mask in self._winners(course, wanted):
            ways = [self._dealt(course, index, count, mask, unit.kind) for index, count in wanted]
            for stocks in product(*ways):
                dealt = dict(zip((index for index, _ in wanted), stocks, strict=True))
                yield tuple(dealt.get(index, stock) for index, stock in enumerate(course))

    def _winners(self, course: _Course, wanted: list[tuple[int, int]]) -> list[Mask]:
        """Masks that may be chosen: the lowest that suits all, or any where distances decide."""
        found = self._suiting(course, wanted)
        return found if self._rule.closest else found[:1]

    def _suiting(self, course: _Course, wanted: list[tuple[int, int]]) -> list[Mask]:
        """Masks that are preferred by all, in the kubelet's order."""
        found = {width(self._supplies[index], self._room.numa_nodes, count) for index, count in wanted}
        # Preferred by all means one mask for all, and each as narrow as it could be.
        if len(found) > 1 or (self._rule.policy is TopologyPolicy.SINGLE_NUMA_NODE and found != {1}):
            return []
        (narrowest,) = found
        return [
            mask
            for mask in masks(self._room.numa_nodes)
            if mask.bit_count() == narrowest
            and all(self._suits(mask, course[index], index, count) for index, count in wanted)
        ]

    def _suits(self, mask: Mask, stock: _Stock, index: int, count: int) -> bool:
        groups = self._supplies[index].groups
        near = [bool(group.mask & mask) for group in groups]
        if any(again and not is_near for again, is_near in zip(stock.again, near, strict=True)):
            return False
        free = sum(free for free, is_near in zip(stock.free, near, strict=True) if is_near)
        return sum(stock.again) + free >= count

    def _dealt(self, course: _Course, index: int, count: int, mask: Mask, kind: Kind) -> list[_Stock]:
        """Every stock that dealing ``count`` ids in ``mask`` can leave; none where there are too few."""
        stock, supply = course[index], self._supplies[index]
        repeated = min(count, sum(stock.again))
        in_reach = tuple(
            free if group.mask & mask or self._is_anywhere(mask) else 0
            for free, group in zip(stock.free, supply.groups, strict=True)
        )
        return [
            _left(stock, old, new, kind)
            for old in splits(repeated, stock.again)
            for new in splits(count - repeated, in_reach)
        ]

    def _is_anywhere(self, mask: Mask) -> bool:
        """Whether the kubelet takes ``mask`` for no opinion, and deals ids without a hint as readily.

        So it does under single-numa-node where the machine has one NUMA node (singleNumaNodePolicy.Merge).
        """
        return self._rule.policy is TopologyPolicy.SINGLE_NUMA_NODE and mask == self._every


def _left(stock: _Stock, old: Split, new: Split, kind: Kind) -> _Stock:
    free = tuple(have - taken for have, taken in zip(stock.free, new, strict=True))
    if kind is Kind.INIT:
        return _Stock(free, tuple(have + taken for have, taken in zip(stock.again, new, strict=True)))
    return _Stock(free, tuple(have - taken for have, taken in zip(stock.again, old, strict=True)))
