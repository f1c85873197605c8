"""Which HCAs a container's seats mean at this start.

By identity for now: a seat means the HCA it was made for. It must not touch files, and must not remember.
"""

import msgspec

from railside_agent.health import sound_hca
from railside_agent.seats import Offer
from railside_proto.machine import Hca, Machine
from railside_proto.reasons import Code, Reason, reason


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The HCAs of a container, in the order of its seats, as the kernel names and numbers them now."""

    seats: tuple[str, ...]
    hcas: tuple[Hca, ...]


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The container must not start now; the kubelet tries again by itself in 11 to 15 seconds."""

    reason: Reason


def bind(seats: tuple[str, ...], offer: Offer, machine: Machine) -> Bound | Refused:
    """The HCAs that ``seats`` mean on ``machine``, looked at for this start: all sound, or a refusal."""
    found = [_bind_one(seat, offer, machine) for seat in seats]
    for outcome in found:
        if isinstance(outcome, Reason):
            return Refused(reason=outcome)
    return Bound(seats=seats, hcas=tuple(outcome for outcome in found if isinstance(outcome, Hca)))


def _bind_one(seat: str, offer: Offer, machine: Machine) -> Hca | Reason:
    address = next((offered.hca for offered in offer if offered.seat.id == seat), None)
    if address is None:
        return reason(Code.SEAT_UNKNOWN, seat=seat)
    found = sound_hca(address, machine)
    if isinstance(found, Reason):
        return reason(Code.HCA_NOT_SOUND, seat=seat, device=address, detail=found.sentence)
    return found
