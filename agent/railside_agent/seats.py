"""The list that the kubelet is given: seats with their NUMA hints and health.

A zone lists the seats that containers hold, and one free seat for each free share of its HCAs. An id once listed
stays until the kubelet cannot have it in mind any more: one that is missing crashes the kubelet. It must not know
the kubelet's messages, and not which HCA a free seat will mean.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from railside_agent.holders import Checkpoint
from railside_agent.rules import Rules
from railside_agent.seat_names import is_ours, node_of, order, unused, zone_of
from railside_agent.situation import Listed, Situation, believed
from railside_agent.soundness import Courses, follow, next_recovery
from railside_agent.usage import Usage, usage
from railside_proto.machine import PciAddress
from railside_proto.pool import Mode, Pool, Seat
from railside_proto.reasons import Code, Reason, reason

HELD_HEALTHY_SECONDS: Final = 10.0
"""How long after a registration held seats are told as healthy, whatever they are: the kubelet admits its pods
anew, and kills those whose ids are not."""


class Books(msgspec.Struct, frozen=True, kw_only=True):
    """What outlives a decision."""

    hinted: bool | None = None
    """Whether the last list had hints; None before the first."""
    listed: tuple[Listed, ...] = ()
    courses: Courses = {}
    checkpoint: Checkpoint | None = None
    """The last one that made sense."""


class OfferedSeat(msgspec.Struct, frozen=True, kw_only=True):
    """A seat in the list."""

    seat: Seat
    healthy: bool
    """What the kubelet is told."""
    held: bool = False
    foreign: bool = False
    """Whether another plugin dealt it, so that its HCA is not ours to choose."""
    hca: PciAddress | None = None
    """The HCA that a held seat means since its container's start; None for one that has not started."""
    reason: Reason | None = None
    """Why the seat is not to be had, or what is wrong with the HCA that it means."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """The whole list of a pool, and what it rests on."""

    seats: tuple[OfferedSeat, ...] = ()
    usage: Usage | None = None
    changes_at: float | None = None
    """When the list changes by itself, because an HCA has recovered or an id may leave."""


def offer(now: Situation, books: Books, pool: Pool, rules: Rules) -> tuple[Books, Offer]:
    """The list in situation ``now``, and the books to pass in the next time."""
    now = believed(now, books.checkpoint, books.listed, pool.resource)
    courses = followed(now, books, pool)
    used = usage(now, courses, pool, rules, hinted_before=books.hinted)
    clerk = _Clerk(now, books, pool, rules, used)
    seats = tuple(sorted(clerk.seats(), key=lambda one: order(one.seat.id)))
    listed = tuple(clerk.note(one) for one in seats)
    moments = (
        next_recovery(courses.values(), now.now, rules.recovery_seconds),
        clerk.next_departure(listed),
        clerk.end_of_patience(),
    )
    return (
        Books(
            hinted=used.hinted,
            listed=listed,
            courses=courses,
            checkpoint=books.checkpoint if now.doubtful else now.checkpoint,
        ),
        Offer(seats=seats, usage=used, changes_at=min((one for one in moments if one is not None), default=None)),
    )


def followed(now: Situation, books: Books, pool: Pool) -> Courses:
    """How the HCAs have fared, the last look included."""
    if now.machine is None:
        return books.courses
    return follow(books.courses, now.machine, now.now, pool.selector.link_layer)


def wants_registration(now: Offer, mode: Mode | None) -> bool:
    """Whether the kubelet should know us: never without anything of ours, as another plugin would be displaced."""
    ours = [one for one in now.seats if not one.foreign]
    return any(one.held for one in ours) or (mode is not None and bool(ours or (now.usage and now.usage.hcas)))


class _Clerk:
    """Writes one list."""

    def __init__(self, now: Situation, books: Books, pool: Pool, rules: Rules, used: Usage) -> None:
        self._now = now
        self._rules = rules
        self._used = used
        self._before = {one.id: one for one in books.listed}
        checkpoint = now.checkpoint or Checkpoint()
        self._in_checkpoint = checkpoint.held(pool.resource)
        self._acknowledged = checkpoint.registered.get(pool.resource, frozenset())
        self._bound = {seat: hca for one in used.live for seat, hca in zip(one.seats, one.hcas, strict=False)}
        self._ill = {one.hca.address: one.unsound for one in used.hcas}
        self._all_nodes = self._nodes_of_the_machine()

    def seats(self) -> Iterator[OfferedSeat]:
        foreign = {one.id for one in self._used.foreign.ids}
        held = self._used.held.keys()
        # A container that runs has them though the kubelet, which lost its checkpoint, would deal them again.
        lost = self._bound.keys() - held - foreign
        spare = (self._before.keys() | self._in_checkpoint.keys()) - held - foreign - lost
        offered = set(self._offered(spare, frozenset(lost | spare | held)))
        yield from (self._held(name) for name in held)
        yield from (self._foreign(name) for name in foreign)
        yield from (self._free(name) for name in offered)
        yield from (self._tombstone(name) for name in lost)
        yield from (self._tombstone(name) for name in spare - offered if not self._may_leave(name))

    def note(self, one: OfferedSeat) -> Listed:
        """How the books keep it."""
        before = self._before.get(one.seat.id)
        since = before.unhealthy_since if before else None
        since = self._now.now if since is None else since
        return Listed(
            id=one.seat.id,
            numa_nodes=one.seat.numa_nodes,
            held=one.held,
            unhealthy_since=None if one.healthy else since,
        )

    def next_departure(self, listed: Iterable[Listed]) -> float | None:
        """When the next id will have been unhealthy for long enough to leave."""
        since = (one.unhealthy_since for one in listed)
        moments = (one + self._rules.tombstone_seconds for one in since if one is not None)
        return min((one for one in moments if one > self._now.now), default=None)

    def end_of_patience(self) -> float | None:
        """When held seats are no longer told as healthy because the kubelet has just taken us."""
        since = self._now.heard_since
        if since is None or not self._rules.report_held_unhealthy or not self._just_registered():
            return None
        return since + HELD_HEALTHY_SECONDS

    def _offered(self, spare: set[str], taken: frozenset[str]) -> Iterator[str]:
        """Free seats: those that were offered before, then others of the zone, then new ones."""
        for zone in self._used.zones:
            of_zone = [name for name in spare if is_ours(name) and zone_of(name) == zone]
            of_zone.sort(key=lambda name: (self._was_unhealthy(name), order(name)))
            yield from itertools.islice(itertools.chain(of_zone, unused(zone, taken)), self._used.free(zone))

    def _was_unhealthy(self, name: str) -> bool:
        before = self._before.get(name)
        return before is None or before.unhealthy_since is not None

    def _held(self, name: str) -> OfferedSeat:
        """Counted as healthy whatever its HCA does: an ill one would hide an idle HCA from the scheduler."""
        hca = self._bound.get(name)
        ill = self._hca_illness(hca) if hca else None
        told = self._rules.report_held_unhealthy and not self._just_registered()
        return OfferedSeat(seat=self._seat(name), healthy=not (told and ill), held=True, hca=hca, reason=ill)

    def _hca_illness(self, address: PciAddress) -> Reason | None:
        if self._now.machine is None:
            return None
        return self._ill[address] if address in self._ill else reason(Code.HCA_GONE, address=address)

    def _just_registered(self) -> bool:
        since = self._now.heard_since
        return since is None or self._now.now - since < HELD_HEALTHY_SECONDS

    def _foreign(self, name: str) -> OfferedSeat:
        why = reason(Code.SEAT_FOREIGN, seat=name)
        return OfferedSeat(seat=self._seat(name), healthy=True, held=True, foreign=True, reason=why)

    def _free(self, name: str) -> OfferedSeat:
        return OfferedSeat(seat=self._seat(name), healthy=True)

    def _tombstone(self, name: str) -> OfferedSeat:
        return OfferedSeat(seat=self._seat(name), healthy=False, reason=reason(Code.SEAT_WITHDRAWN, seat=name))

    def _may_leave(self, name: str) -> bool:
        """Whether the kubelet can no longer have an id in mind: then alone a missing id does not crash it."""
        before = self._before.get(name)
        since = before.unhealthy_since if before else None
        return (
            since is not None
            and self._now.now - since >= self._rules.tombstone_seconds
            and name not in self._in_checkpoint
            and name not in self._acknowledged
            and not self._now.doubtful
            and not self._now.in_flight
        )

    def _seat(self, name: str) -> Seat:
        """A seat with its hint: what the kubelet recorded for a held one, else its zone's."""
        if not self._used.hinted:
            return Seat(id=name)
        return Seat(id=name, numa_nodes=self._recorded(name) or node_of(zone_of(name)) or self._all_nodes)

    def _recorded(self, name: str) -> tuple[int, ...]:
        recorded = self._in_checkpoint.get(name)
        if recorded is not None and recorded.numa_nodes:
            return recorded.numa_nodes
        before = self._before.get(name)
        return () if before is None or is_ours(name) else before.numa_nodes

    def _nodes_of_the_machine(self) -> tuple[int, ...]:
        """For seats that fit everywhere; before the first look as far as the ids tell."""
        machine = self._now.machine
        if machine is not None:
            return tuple(node.number for node in machine.numa_nodes)
        recorded = {node for one in self._in_checkpoint.values() for node in one.numa_nodes}
        named = {node for name in self._before for node in node_of(zone_of(name))}
        return tuple(sorted(recorded | named))
