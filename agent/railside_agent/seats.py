"""What the kubelet is offered: seats with their NUMA hints and health, and the HCA that each seat means.

A seat once listed stays listed: the kubelet crashes when an id that a pod holds leaves the list.
It must not know the kubelet's messages.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from railside_agent.health import illness, sound_hca
from railside_agent.holders import HeldId
from railside_proto.machine import Hca, Machine, PciAddress
from railside_proto.pool import Container, Pool, Seat
from railside_proto.reasons import Code, Reason, reason

_ANYWHERE: Final = "any"
_ZONE: Final = re.compile(r"n(\d+)-s\d+")


class OfferedSeat(msgspec.Struct, frozen=True, kw_only=True):
    """A seat in the list: bound by identity to one HCA, and ill when that HCA is."""

    seat: Seat
    hca: PciAddress | None
    """None for an id that a pod holds and that is none of ours."""
    illness: Reason | None = None
    held: bool = False
    """Whether a container has it, as far as the kubelet's checkpoint says."""

    @property
    def counted(self) -> bool:
        """Whether the kubelet is told that it is healthy.

        A held one is, whatever its HCA does: an ill one would hide an idle HCA from the scheduler, and cost a
        restarted container its pod when the kubelet restarts. The container's next start says the truth.
        """
        return self.held or self.illness is None


Offer = tuple[OfferedSeat, ...]
"""The whole list of a pool, in the order in which the seats came."""


def offer(machine: Machine | None, pool: Pool, before: Offer = (), held: tuple[HeldId, ...] = ()) -> Offer:
    """The seats now: those listed before, those of new HCAs, and ids that pods hold and that are none of ours.

    ``machine`` is None before the first look: what was listed is then taken as it was. An HCA that has gone
    leaves its seats in the list, ill; hints and names of seats never change.
    """
    own = before if machine is None else _own_seats(machine, pool, before, held)
    listed = {one.seat.id for one in own}
    seats = (*own, *(_foreign(one, own) for one in held if one.id not in listed))
    in_hand = {one.id for one in held}
    return tuple(msgspec.structs.replace(one, held=one.seat.id in in_hand) for one in seats)


def has_own_seats(seats: Offer) -> bool:
    """Whether any of ``seats`` stands for an HCA of ours."""
    return any(one.hca is not None for one in seats)


def recalled(remembered: Offer, containers: Iterable[Container], held: tuple[HeldId, ...]) -> Offer:
    """What was remembered, and what bound containers tell beyond that: a disk may have refused the last of it.

    The health of none is known.
    """
    recorded = {one.id: one.numa_nodes for one in held}
    known = {*(one.seat.id for one in remembered), *(one.hca for one in remembered)}
    hcas = {seat: hca for one in containers for seat, hca in zip(one.seats, one.hcas, strict=False)}
    told = {seat: hca for seat, hca in sorted(hcas.items()) if seat not in known and hca not in known}
    nodes = {seat: recorded[seat] if seat in recorded else _nodes_by_name(seat) for seat in told}
    everywhere = tuple(sorted({*_all_nodes(remembered), *(node for of in nodes.values() for node in of)}))
    seats = (
        Seat(id=seat, numa_nodes=nodes[seat] if seat in recorded else nodes[seat] or everywhere) for seat in told
    )
    return (*remembered, *(OfferedSeat(seat=seat, hca=PciAddress(told[seat.id])) for seat in seats))


def _own_seats(machine: Machine, pool: Pool, before: Offer, held: tuple[HeldId, ...]) -> Offer:
    kept = tuple(msgspec.structs.replace(one, illness=_illness(one, machine)) for one in before)
    listed = {one.hca for one in before}
    shares = [hca for hca in machine.hcas if hca.address not in listed for _ in range(pool.share)]
    taken = {*(one.seat.id for one in before), *(one.id for one in held)}
    hinted = _is_hinted(machine, before, held)
    anywhere = tuple(node.number for node in machine.numa_nodes) or _all_nodes(before)
    return (*kept, *_new_seats(shares, taken, anywhere, hinted=hinted))


def _illness(offered: OfferedSeat, machine: Machine) -> Reason | None:
    if offered.hca is None:
        return reason(Code.SEAT_FOREIGN, seat=offered.seat.id)
    found = sound_hca(offered.hca, machine)
    return found if isinstance(found, Reason) else None


def _new_seats(
    hcas: Iterable[Hca], taken: set[str], anywhere: tuple[int, ...], *, hinted: bool
) -> Iterator[OfferedSeat]:
    """A seat for each of ``hcas``; one that no NUMA node claims fits ``anywhere``."""
    for hca in hcas:
        zone = _ANYWHERE if hca.numa_node is None else f"n{hca.numa_node}"
        nodes = anywhere if hca.numa_node is None else (hca.numa_node,)
        seat = Seat(id=_first_free_id(zone, taken), numa_nodes=nodes if hinted else ())
        taken.add(seat.id)
        yield OfferedSeat(seat=seat, hca=hca.address, illness=illness(hca))


def _is_hinted(machine: Machine, before: Offer, held: tuple[HeldId, ...]) -> bool:
    """Whether this list has hints: all seats or none, as the kubelet never deals a bare one among hinted."""
    if before:
        return any(one.seat.numa_nodes for one in before)
    return any(one.numa_nodes for one in held) or any(hca.numa_node is not None for hca in machine.hcas)


def _foreign(one: HeldId, own: Offer) -> OfferedSeat:
    """An id that is none of ours, where the kubelet recorded it: without it in the list the kubelet crashes."""
    bare = bool(own) and not _all_nodes(own)
    seat = Seat(id=one.id, numa_nodes=() if bare else one.numa_nodes or _all_nodes(own))
    return OfferedSeat(seat=seat, hca=None, illness=reason(Code.SEAT_FOREIGN, seat=one.id))


def _first_free_id(zone: str, taken: set[str]) -> str:
    """Neutral names, as a seat says nothing of its HCA: ``n0-s3`` is the fourth seat of NUMA node 0."""
    number = 0
    while (seat_id := f"{zone}-s{number}") in taken:
        number += 1
    return seat_id


def _nodes_by_name(seat_id: str) -> tuple[int, ...]:
    found = _ZONE.fullmatch(seat_id)
    return (int(found[1]),) if found else ()


def _all_nodes(seats: Offer) -> tuple[int, ...]:
    return tuple(sorted({node for one in seats for node in one.seat.numa_nodes}))
