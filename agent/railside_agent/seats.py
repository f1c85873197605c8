"""What the kubelet is offered: seats with their NUMA hints and health, and the HCA that each seat means.

A seat once listed stays listed: the kubelet crashes when an id that a pod holds leaves the list.
It must not know the kubelet's messages.
"""

from collections.abc import Iterable, Iterator

import msgspec

from railside_agent.health import illness
from railside_proto.machine import Hca, Machine, PciAddress
from railside_proto.pool import Pool, Seat
from railside_proto.reasons import Code, Reason, reason


class OfferedSeat(msgspec.Struct, frozen=True, kw_only=True):
    """A seat in the list: bound by identity to one HCA, and ill when that HCA is."""

    seat: Seat
    hca: PciAddress
    illness: Reason | None = None


Offer = tuple[OfferedSeat, ...]
"""The whole list of a pool, in the order in which the seats came."""


def offer(machine: Machine, pool: Pool, before: Offer = ()) -> Offer:
    """The seats of ``machine`` now: those listed before, with today's health, then those of new HCAs.

    An HCA that has gone leaves its seats in the list, ill; its hint and its seats' names never change.
    """
    present = {hca.address: hca for hca in machine.hcas}
    kept = tuple(_with_health(seat, present.get(seat.hca)) for seat in before)
    listed = {seat.hca for seat in before}
    fresh = [hca for hca in machine.hcas if hca.address not in listed]
    return (*kept, *_new_seats(fresh, machine, pool, before))


def _with_health(seat: OfferedSeat, hca: Hca | None) -> OfferedSeat:
    why = illness(hca) if hca else reason(Code.HCA_GONE, address=seat.hca)
    return msgspec.structs.replace(seat, illness=why)


def _new_seats(fresh: Iterable[Hca], machine: Machine, pool: Pool, before: Offer) -> Iterator[OfferedSeat]:
    hinted = _is_hinted(machine, before)
    taken = {seat.seat.id for seat in before}
    for hca in fresh:
        for _ in range(pool.share):
            seat_id = _first_free_id(_zone_name(hca), taken)
            taken.add(seat_id)
            seat = Seat(id=seat_id, numa_nodes=_hint(hca, machine) if hinted else ())
            yield OfferedSeat(seat=seat, hca=hca.address, illness=illness(hca))


def _is_hinted(machine: Machine, before: Offer) -> bool:
    """Whether this list has hints: all seats or none, as the kubelet never deals a bare one among hinted."""
    if before:
        return any(seat.seat.numa_nodes for seat in before)
    return any(hca.numa_node is not None for hca in machine.hcas)


def _first_free_id(zone: str, taken: set[str]) -> str:
    """Neutral names, as a seat says nothing of its HCA: ``n0-s3`` is the fourth seat of NUMA node 0."""
    number = 0
    while (seat_id := f"{zone}-s{number}") in taken:
        number += 1
    return seat_id


def _zone_name(hca: Hca) -> str:
    return "any" if hca.numa_node is None else f"n{hca.numa_node}"


def _hint(hca: Hca, machine: Machine) -> tuple[int, ...]:
    """The NUMA nodes to tell the kubelet; an HCA that no node claims fits every node."""
    if hca.numa_node is not None:
        return (hca.numa_node,)
    return tuple(node.number for node in machine.numa_nodes)
