"""Which of the available seats the kubelet should deal, where it leaves a choice.

Seats of one zone are worth the same, as the HCA is chosen at the container's start: so this says from which zones
they come, and nothing depends on its being asked. It must not refuse while the request can be met.
"""

from collections import Counter
from collections.abc import Sequence

from railside_agent.seat_names import order, zone_of


def preferred(available: Sequence[str], must_include: Sequence[str], size: int) -> tuple[str, ...]:
    """``size`` of ``available``, ``must_include`` among them, from as few zones as can be.

    Zones that ``must_include`` touches come first, then the smallest that holds all that is still wanted, so that
    wide pods find whole zones later; if none does, the largest. Fewer are given only where fewer are available.
    """
    chosen = list(dict.fromkeys(must_include))
    rest = sorted(set(available) - set(chosen), key=order)
    while len(chosen) < size and rest:
        zone = _next_zone(Counter(map(zone_of, rest)), {zone_of(one) for one in chosen}, size - len(chosen))
        chosen += [one for one in rest if zone_of(one) == zone][: size - len(chosen)]
        rest = [one for one in rest if one not in chosen and zone_of(one) != zone]
    return tuple(chosen)


def _next_zone(free: Counter[str], begun: set[str], wanted: int) -> str:
    """The zone to go on with."""
    return min(free, key=lambda zone: (zone not in begun, free[zone] < wanted, _fit(free[zone], wanted), zone))


def _fit(free: int, wanted: int) -> int:
    """Least left over where it suffices, most given where it does not."""
    return free if free >= wanted else -free
