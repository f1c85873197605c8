"""What a kubelet will do with a pod: every course that its admission can take, from a given room.

It answers for the strict policies of the topology manager, which turn pods away, and for how init containers hand
on what they had (pkg/kubelet/cm/topologymanager: policy_restricted.go, policy_single_numa_node.go; devicemanager:
devicesToAllocate). Where the kubelet chooses at random, all choices are followed. It must not know which pods are
on their way, and promises nothing for a room that changes.
"""

import math
from collections.abc import Iterable
from itertools import islice, product
from typing import Final

import msgspec

from railside_extender.demand import Unit
from railside_extender.room import Mask, Room, Split, Supply, mask_of, masks, splits, width
from railside_proto.podspec import Kind
from railside_proto.record import TopologyPolicy

Release = tuple[tuple[str, Split], ...]
"""What a pod gives back when it ends: by resource, how many ids of each group of the supply."""

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


def admissible(room: Room, rule: Rule, units: tuple[Unit, ...], releases: tuple[Release, ...] = ()) -> bool:
    """Whether the kubelet admits ``units``, one after the other, whichever ids it chooses.

    ``releases`` are what pods that hold something would give back: any may end before, or between two steps.
    """
    if not rule.is_strict:
        return True
    return _Admission(room, rule).admits(units, releases)


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
        return self._suiting(self._start(), self._wanted(unit))

    def _start(self) -> _Course:
        return tuple(_Stock(one.free, (0,) * len(one.groups)) for one in self._supplies)

    def admits(self, units: tuple[Unit, ...], releases: tuple[Release, ...]) -> bool:
        """Whether no course turns any of ``units`` away, whoever of ``releases`` ends before or between two."""
        courses = {(self._start(), releases)}
        for unit in units[:-1]:
            after: set[tuple[_Course, tuple[Release, ...]]] = set()
            for course, rest in self._with_ends(courses):
                found = self._after(course, unit)
                if not found:
                    return False
                after.update((one, rest) for one in found)
                if len(after) > MOST_COURSES:
                    return False
            courses = after
        last = self._with_ends(courses)
        if len(last) > MOST_COURSES:
            return False
        return all(self._winners(course, self._wanted(unit)) for course, _ in last for unit in units[-1:])

    def _with_ends(
        self, courses: Iterable[tuple[_Course, tuple[Release, ...]]]
    ) -> set[tuple[_Course, tuple[Release, ...]]]:
        """The courses, and all that they become when any of the pods that still hold something end."""
        reached = set(courses)
        fresh = reached
        while fresh and len(reached) <= MOST_COURSES:
            fresh = {
                (self._given_back(course, rest[index]), rest[:index] + rest[index + 1 :])
                for course, rest in fresh
                for index in range(len(rest))
            } - reached
            reached |= fresh
        return reached

    def _given_back(self, course: _Course, release: Release) -> _Course:
        given = dict(release)
        return tuple(
            _refilled(stock, supply, given[name]) if name in given else stock
            for stock, (name, supply) in zip(course, self._room.supplies, strict=True)
        )

    def _wanted(self, unit: Unit) -> list[tuple[int, int]]:
        return [(self._index[name], count) for name, count in unit.wants]

    def _after(self, course: _Course, unit: Unit) -> list[_Course]:
        """Where the course can go with one more container; nowhere where the kubelet turns it away.

        Nowhere, too, where it has too many ways to go on: nobody follows them all.
        """
        wanted = self._wanted(unit)
        found: list[_Course] = []
        for mask in self._winners(course, wanted):
            ways = [self._dealt(course, index, count, mask, unit.kind) for index, count in wanted]
            if len(found) + math.prod(map(len, ways)) > MOST_COURSES:
                return []
            for stocks in product(*ways):
                dealt = dict(zip((index for index, _ in wanted), stocks, strict=True))
                found.append(tuple(dealt.get(index, stock) for index, stock in enumerate(course)))
        return found

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
        ways = product(splits(repeated, stock.again), splits(count - repeated, in_reach))
        return [_left(stock, old, new, kind) for old, new in islice(ways, MOST_COURSES + 1)]

    def _is_anywhere(self, mask: Mask) -> bool:
        """Whether the kubelet takes ``mask`` for no opinion, and deals ids without a hint as readily.

        So it does under single-numa-node where the machine has one NUMA node (singleNumaNodePolicy.Merge).
        """
        return self._rule.policy is TopologyPolicy.SINGLE_NUMA_NODE and mask == self._every


def _refilled(stock: _Stock, supply: Supply, given: Split) -> _Stock:
    groups = zip(stock.free, supply.groups, given, strict=True)
    return _Stock(tuple(min(group.listed, free + more) for free, group, more in groups), stock.again)


def _left(stock: _Stock, old: Split, new: Split, kind: Kind) -> _Stock:
    free = tuple(have - taken for have, taken in zip(stock.free, new, strict=True))
    if kind is Kind.INIT:
        return _Stock(free, tuple(have + taken for have, taken in zip(stock.again, new, strict=True)))
    return _Stock(free, tuple(have - taken for have, taken in zip(stock.again, old, strict=True)))
