"""Which of the available seats the kubelet should deal, where it leaves a choice.

Seats of one zone are worth the same, as the HCA is chosen at the container's start: so this says from which zones
they come, and nothing depends on its being asked. It tells, too, a kubelet that never asks. It must not refuse
while the request can be met.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import Literal

from railside_agent.holders import Checkpoint
from railside_agent.seat_names import order, zone_of
from railside_agent.seats import Offer
from railside_proto.reasons import Code, Reason, reason

Asking = Literal["unknown", "asks", "never"]
"""Whether the kubelet asks which seats to deal; unknown until it was seen to, or to deal where it should have."""


def asking_after(
    before: Asking,
    dealt: Iterable[str],
    offer: Offer,
    checkpoint: Checkpoint | None,
    *,
    resource: str,
    coming: Iterable[str],
) -> Asking:
    """What a deal tells of the kubelet, by what was known just before it; ``coming`` are ids on their way.

    One that asks does so where ids of the nodes that it deals from are left over (pkg/kubelet/cm/devicemanager:
    devicesToAllocate); ids that were dealt before, as an init container's, leave no choice.
    """
    if before != "unknown" or checkpoint is None:
        return before
    seats = frozenset(dealt)
    free = _free(offer, checkpoint, resource) - frozenset(coming)
    zones = {zone_of(one) for one in seats}
    return "never" if seats <= free and any(zone_of(one) in zones for one in free - seats) else before


def lacks_of(asking: Asking) -> tuple[Reason, ...]:
    """What to tell of the kubelet."""
    return (reason(Code.PREFERENCE_NOT_ASKED),) if asking == "never" else ()


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


def _free(offer: Offer, checkpoint: Checkpoint, resource: str) -> frozenset[str]:
    """Ids that the kubelet may deal, on the cautious view: listed, acknowledged, and with nobody."""
    healthy = frozenset(one.seat.id for one in offer.seats if one.healthy)
    return (healthy & checkpoint.registered.get(resource, frozenset())) - checkpoint.held(resource).keys()


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
