"""Who uses which HCA of a pool at one moment, and what that leaves for others.

It must not choose seats or HCAs: the list and the binding both rest on these counts, so they cannot disagree.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from railside_agent.foreign import Foreign, foreign, is_foreign
from railside_agent.hints import is_hinted, wants_hints
from railside_agent.holders import Checkpoint, Entry, HeldId
from railside_agent.rules import Rules
from railside_agent.seat_names import ANYWHERE, is_ours, zone_of, zone_of_node
from railside_agent.situation import Situation
from railside_agent.soundness import Course, Courses, unsound
from railside_proto.machine import Hca, PciAddress
from railside_proto.pool import Binding, Pool
from railside_proto.reasons import Reason


class HcaUse(msgspec.Struct, frozen=True, kw_only=True):
    """One HCA of the pool and who uses it."""

    hca: Hca
    zone: str
    users: int
    """Held seats that mean it."""
    unsound: Reason | None
    """Why it must not come into new hands."""
    withheld: bool
    """Whether a container of another plugin has it, or may have it."""
    free: int
    """How many more containers may have it."""
    flaps: int = 0
    """How often it fell ill."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The whole pool."""

    hinted: bool
    share: int
    """How many containers one HCA may serve."""
    held: dict[str, HeldId]
    """Our seats that containers hold, by name; seats of pods known to be over are not among them."""
    foreign: Foreign
    live: tuple[Binding, ...]
    """Bindings of containers that hold the seats, or run on although the kubelet forgot them."""
    hcas: tuple[HcaUse, ...]

    @property
    def zones(self) -> tuple[str, ...]:
        """Every zone that has an HCA."""
        return tuple(sorted({one.zone for one in self.hcas}))

    def zone(self, seat: str) -> str:
        """The zone that a seat belongs to in this list."""
        if not self.hinted:
            return ANYWHERE
        # A seat under another plugin's id, dealt again by us, is where the kubelet recorded it.
        nodes = self.held[seat].numa_nodes if seat in self.held and not is_ours(seat) else ()
        zone = zone_of_node(nodes[0]) if len(nodes) == 1 else zone_of(seat)
        return self._roomiest if zone == ANYWHERE and ANYWHERE not in self.zones else zone

    @property
    def _roomiest(self) -> str:
        """Where a seat that fits everywhere goes when no HCA is without a NUMA node any more."""
        room = {zone: sum(one.free for one in self.hcas if one.zone == zone) for zone in self.zones}
        return max(room, key=lambda zone: (room[zone], zone), default=ANYWHERE)

    def free(self, zone: str) -> int:
        """Seats of ``zone`` that can be dealt: free shares, less those that dealt seats are waiting for."""
        bound = {seat for one in self.live for seat in one.seats}
        waiting = sum(self.zone(seat) == zone for seat in self.held if seat not in bound)
        return max(0, sum(one.free for one in self.hcas if one.zone == zone) - waiting)


def usage(
    now: Situation, courses: Courses, pool: Pool, rules: Rules, *, hinted_before: bool | None = None
) -> Usage:
    """Who uses what in situation ``now``; ``hinted_before`` is whether the last list had hints."""
    checkpoint = now.checkpoint or Checkpoint()
    mine = [hca for hca in (now.machine.hcas if now.machine else ()) if pool.takes(hca)]
    hinted = is_hinted(
        mine,
        checkpoint.held(pool.resource).values(),
        before=hinted_before,
        wanted=wants_hints(rules.advertise_topology, now.mode, now.policy),
        busy=bool(now.in_flight) or now.doubtful,
    )
    theirs = foreign(checkpoint, pool.resource, mine)
    live = live_bindings(now, pool)
    counts = _Counts(now, pool, courses, rules)
    hcas = counts.hcas(mine, _users(live), theirs.hcas, hinted=hinted)
    return Usage(
        hinted=hinted,
        share=pool.share(now.mode),
        held=_held(now, pool),
        foreign=theirs,
        live=live,
        hcas=_withhold(hcas, theirs.unknown, hinted=hinted),
    )


def live_bindings(now: Situation, pool: Pool) -> tuple[Binding, ...]:
    """Bindings of containers that still hold the seats, by the checkpoint; all of them where that is in doubt."""
    if now.doubtful:
        return now.bindings
    entries = _live_entries(now, pool)
    holding = {(entry.pod, seat) for entry in entries for seat in entry.names}
    dealt = {frozenset(entry.names) for entry in entries}
    return tuple(one for one in now.bindings if _is_live(one, now, holding, dealt))


def _is_live(binding: Binding, now: Situation, holding: set[tuple[str, str]], dealt: set[frozenset[str]]) -> bool:
    """Whether a container is bound so; ``holding`` are pods with their seats, ``dealt`` those of a container."""
    if binding.pod is None:
        # What is bound when it is dealt is in use before the checkpoint can show it.
        return frozenset(binding.seats) in dealt or now.in_flight.issuperset(binding.seats)
    return binding.pod in now.alive or any((binding.pod, seat) in holding for seat in binding.seats)


def _live_entries(now: Situation, pool: Pool) -> list[Entry]:
    return [entry for entry in now.living if entry.resource == pool.resource]


def _held(now: Situation, pool: Pool) -> dict[str, HeldId]:
    """Seats in hands; a seat that is being dealt is in hands though the checkpoint does not show it yet."""
    dealt = {name: HeldId(id=name) for name in now.in_flight if is_ours(name)}
    entries = (entry for entry in _live_entries(now, pool) if not is_foreign(entry))
    return dealt | {one.id: one for entry in entries for one in entry.ids}


def _users(live: Iterable[Binding]) -> Counter[PciAddress]:
    """Seats by HCA. Init and main containers that share a seat use its HCA once."""
    return Counter(hca for _, hca in {pair for one in live for pair in zip(one.seats, one.hcas, strict=False)})


class _Counts:
    def __init__(self, now: Situation, pool: Pool, courses: Courses, rules: Rules) -> None:
        self._now = now.now
        self._share = pool.share(now.mode)
        self._courses = courses
        self._recovery_seconds = rules.recovery_seconds

    def hcas(
        self, mine: Iterable[Hca], users: Counter[PciAddress], foreign_hcas: frozenset[PciAddress], *, hinted: bool
    ) -> tuple[HcaUse, ...]:
        return tuple(
            self._hca(hca, users[hca.address], hinted=hinted, withheld=hca.address in foreign_hcas) for hca in mine
        )

    def _hca(self, hca: Hca, users: int, *, hinted: bool, withheld: bool) -> HcaUse:
        course = self._courses.get(hca.address, Course())
        ill = unsound(course, self._now, self._recovery_seconds)
        return HcaUse(
            hca=hca,
            zone=zone_of_node(hca.numa_node) if hinted else ANYWHERE,
            users=users,
            unsound=ill,
            withheld=withheld,
            free=0 if ill or withheld else max(0, self._share - users),
            flaps=course.flaps,
        )


def _withhold(hcas: tuple[HcaUse, ...], unknown: dict[str, int], *, hinted: bool) -> tuple[HcaUse, ...]:
    """Withhold one HCA for each that another plugin's containers have without our knowing which."""
    for zone, count in sorted(unknown.items()):
        of_zone = [one for one in hcas if not hinted or ANYWHERE in {zone, one.zone} or one.zone == zone]
        # The least used first: what our own containers have cannot be theirs. Then those of the very zone.
        candidates = (one for one in of_zone if not one.withheld)
        likely = sorted(candidates, key=lambda one: (one.users, one.zone != zone, -one.free))
        taken = {one.hca.address for one in likely[:count]}
        hcas = tuple(
            msgspec.structs.replace(one, withheld=True, free=0) if one.hca.address in taken else one
            for one in hcas
        )
    return hcas
