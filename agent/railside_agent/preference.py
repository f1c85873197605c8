"""Which of the available seats the kubelet should deal, where it leaves a choice.

Seats of one zone are worth the same, as the HCA is chosen at the container's start: so this says from which zones
they come, and nothing depends on its being asked. It must not refuse while the request can be met.
"""

import heapq
from collections.abc import Iterable, Sequence

from railside_agent.seat_names import order, zone_of


def preferred(available: Sequence[str], must_include: Sequence[str], size: int) -> tuple[str, ...]:
    """``size`` of ``available``, ``must_include`` among them, from as few zones as can be.

    Zones that ``must_include`` touches come first, then the smallest that holds all that is still wanted, so that
    wide pods find whole zones later; if none does, the largest. Fewer are given only where fewer are available.
    """
    chosen = list(dict.fromkeys(must_include))
    rest = _by_zone(set(available) - set(chosen))
    while len(chosen) < size and rest:
        wanted = size - len(chosen)
        zone = _next_zone(rest, {zone_of(one) for one in chosen}, wanted)
        # A thousand seats need no order for the few that are taken.
        chosen += heapq.nsmallest(wanted, rest.pop(zone), key=order)
    return tuple(chosen)


def _by_zone(seats: Iterable[str]) -> dict[str, list[str]]:
    zones: dict[str, list[str]] = {}
    for seat in seats:
        zones.setdefault(zone_of(seat), []).append(seat)
    return zones


def _next_zone(rest: dict[str, list[str]], begun: set[str], wanted: int) -> str:
    """The zone to go on with."""
    free = {zone: len(seats) for zone, seats in rest.items()}
    return min(free, key=lambda zone: (zone not in begun, free[zone] < wanted, _fit(free[zone], wanted), zone))


def _fit(free: int, wanted: int) -> int:
    """Least left over where it suffices, most given where it does not."""
    return free if free >= wanted else -free
