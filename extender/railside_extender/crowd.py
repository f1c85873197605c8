"""Whether a pod is safe on a node where others are on their way: whatever comes first, and whoever ends meanwhile.

docs/scheduling.md proves each rule. It must not know why the others are on their way, nor who they are.
"""

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from railside_extender.admission import Release, Rule, admissible, widths
from railside_extender.demand import Unit
from railside_extender.room import Mask, Room, free_within, listed_in, masks
from railside_proto.podspec import Kind
from railside_proto.record import TopologyPolicy

Pod = tuple[Unit, ...]
"""A pod's units."""

Counts = Mapping[str, int]
"""By resource."""

NOTHING: Final[Counts] = {}

Zones = tuple[Mask, ...]

MOST_PLACINGS: Final = 4096
"""So many ways to place the others are looked through; where there are more, the sums alone decide."""


@functools.lru_cache(maxsize=1 << 14)
def everybody_is_safe(
    room: Room, rule: Rule, newcomer: Pod, others: tuple[Pod, ...], releases: tuple[Release, ...]
) -> bool:
    """Whether the kubelet admits ``newcomer`` and each of ``others``, in whatever order they come.

    ``releases`` are what pods that hold something would give back: any of them may end before.
    """
    if not rule.is_strict or not newcomer:
        return True
    others = tuple(one for one in others if one)
    every = (newcomer, *others)
    if _fit_together(room, rule, every):
        return True
    if not others:
        return _is_safe_alone(room, rule, newcomer, releases)
    return _are_simple(room, every) and all(
        not _can_be_shut_out(room, pod, _without(every, index)) for index, pod in enumerate(every)
    )


def is_safe_among_any(
    room: Room, rule: Rule, newcomer: Pod, others: tuple[Pod, ...], releases: tuple[Release, ...]
) -> bool:
    """Whether ``newcomer`` will be aligned as ``rule`` says where the others are dealt ids from anywhere.

    So it is under best-effort: what is aligned whole is preferred there, and nothing is turned away. One mask must
    have room for the newcomer whatever the others take of it.
    """
    if not newcomer:
        return True
    taken = sums(unit for pod in others for unit in pod)
    return _fit_together(room, rule, (newcomer,), beside=taken) or (
        not others and _is_safe_alone(room, rule, newcomer, releases)
    )


def _without(pods: tuple[Pod, ...], index: int) -> tuple[Unit, ...]:
    return tuple(unit for other, pod in enumerate(pods) if other != index for unit in pod)


def _fit_together(room: Room, rule: Rule, pods: tuple[Pod, ...], beside: Counts = NOTHING) -> bool:
    """Whether one mask has room for the sum of all that is asked, and suits each: then order does not matter.

    What is taken ``beside`` may come out of it, too.
    """
    units = [unit for pod in pods for unit in pod]
    found = frozenset[int]().union(*(widths(room, unit) for unit in units))
    if any(unit.kind is Kind.INIT for unit in units) or len(found) != 1:
        return False
    (wide,) = found
    if wide > 1 and rule.policy is TopologyPolicy.SINGLE_NUMA_NODE:
        return False
    asked = sums(units)
    wide_masks = (mask for mask in masks(room.numa_nodes) if mask.bit_count() == wide)
    return any(_has_room(room, asked, mask, beside) for mask in wide_masks)


def sums(units: Iterable[Unit]) -> Counts:
    """What all of ``units`` ask for together, by resource."""
    asked: Counter[str] = Counter()
    for unit in units:
        asked.update(dict(unit.wants))
    return asked


def _is_safe_alone(room: Room, rule: Rule, newcomer: Pod, releases: tuple[Release, ...]) -> bool:
    """Whether no choice of the kubelet turns it away.

    One unit is safe wherever it fits, as more room never hurts it. Several may be lured apart by room that is
    given back: they must be safe whoever ends.
    """
    return admissible(room, rule, newcomer, releases if len(newcomer) > 1 else ())


def _are_simple(room: Room, pods: tuple[Pod, ...]) -> bool:
    """Whether each pod is one unit that takes one NUMA node."""
    return all(len(pod) == 1 and widths(room, pod[0]) == {1} for pod in pods)


def _can_be_shut_out(room: Room, pod: Pod, others: tuple[Unit, ...]) -> bool:
    """Whether ``others`` could be placed so that no NUMA node is left for ``pod``, some of them not at all.

    Room may be given back before: what is placed may exceed what is free, and not what is listed.
    """
    asked = dict(pod[0].wants)
    single = (mask for mask in masks(room.numa_nodes) if mask.bit_count() == 1)
    zones = tuple(zone for zone in single if _has_room(room, asked, zone, {}))
    if len(set(others)) == 1:
        return _can_be_shut_out_by_equals(room, asked, zones, others)
    if (len(zones) + 1) ** len(others) > MOST_PLACINGS:
        return True
    return any(
        all(not _has_room(room, asked, zone, placed) for zone, placed in placing.items())
        for placing in _placings(room, {zone: {} for zone in zones}, others)
    )


def _can_be_shut_out_by_equals(room: Room, asked: Counts, zones: Zones, others: tuple[Unit, ...]) -> bool:
    """The same for others of one shape: it takes a number of them to shut each zone, if they can."""
    needed = [_to_shut(room, asked, zone, others[0]) for zone in zones]
    return all(needed) and sum(filter(None, needed)) <= len(others)


def _to_shut(room: Room, asked: Counts, zone: Mask, other: Unit) -> int | None:
    """How many of ``other`` it takes in ``zone`` until there is no room for ``asked``; None where none suffice."""
    most = min((listed_in(room.of(name), zone) // count for name, count in other.wants if count), default=0)
    for number in range(1, most + 1):
        if not _has_room(room, asked, zone, {name: number * count for name, count in other.wants}):
            return number
    return None


def _placings(room: Room, placing: dict[Mask, Counts], others: tuple[Unit, ...]) -> Iterator[dict[Mask, Counts]]:
    """Every way to place some of ``others`` in the zones of ``placing``, beside what is there."""
    if not others:
        yield placing
        return
    first, rest = others[0], others[1:]
    yield from _placings(room, placing, rest)
    for zone, placed in placing.items():
        more = Counter(placed) + Counter(dict(first.wants))
        if all(listed_in(supply, zone) >= more[name] for name, supply in room.supplies):
            yield from _placings(room, {**placing, zone: more}, rest)


def _has_room(room: Room, asked: Counts, mask: Mask, placed: Counts) -> bool:
    """Whether ``mask`` has room for ``asked`` when others have ``placed`` there.

    Ids of other nodes, too, do not count: whoever is served there may take them.
    """
    return all(free_within(room.of(name), mask) - placed.get(name, 0) >= count for name, count in asked.items())
