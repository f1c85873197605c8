"""What /readyz and /status answer: the agent's present view, put together from its parts.

It must not change any of them.
"""

from typing import Final

import msgspec

from railside_agent.seats import Offer, OfferedSeat, has_own_seats
from railside_proto.machine import Hca, Machine
from railside_proto.pool import Container, Pool
from railside_proto.reasons import Code, Reason, reason


class RegistrationState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the kubelet took a plugin, a sentence about it, and whether the kubelet listens to its list."""

    registered: bool
    detail: str
    streams: int = 0


NOT_TRIED: Final = RegistrationState(registered=False, detail="not registered: there is nothing to offer yet")


_NO_DEVICE: Final = {Code.NO_DRIVER, Code.NO_RDMA_DEVICE}
"""Of functions that have no RDMA device."""


class SeatStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One seat and the HCA that it means now; ``name`` and ``device`` are None while the HCA is gone."""

    id: str
    numa_nodes: tuple[int, ...]
    hca: str | None
    name: str | None
    device: str | None
    held: bool
    healthy: bool
    """The truth, which for a held seat may not be what the kubelet is told."""
    reason: Reason | None


class Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole answer of /status."""

    version: str
    not_ready: tuple[str, ...]
    pool: Pool
    registration: RegistrationState
    nothing_offered: Reason | None
    seats: tuple[SeatStatus, ...]
    containers: tuple[Container, ...]
    machine: Machine | None


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's parts at one moment."""

    version: str
    pool: Pool
    machine: Machine | None
    offer: Offer
    registration: RegistrationState
    look_problem: str | None = None
    """Why the last look at the machine failed."""


def not_ready(view: View) -> tuple[str, ...]:
    """What is missing before the agent does its work; with nothing to offer it is ready, and says why not more."""
    if view.look_problem is not None:
        return (f"the machine could not be looked at: {view.look_problem}",)
    if view.machine is None:
        return ("the machine has not been looked at yet",)
    if not has_own_seats(view.offer):
        return ("the seats are not listed yet",) if view.machine.hcas else ()
    if not view.registration.registered:
        return (view.registration.detail,)
    if view.registration.streams == 0:
        return ("the kubelet took the registration but does not listen to the list",)
    return ()


def nothing_offered(machine: Machine) -> Reason | None:
    """Why a machine offers no HCA at all; None when it offers some."""
    if machine.hcas:
        return None
    devices = [one.reason for one in machine.excluded if one.reason.code not in _NO_DEVICE]
    if not devices:
        return reason(Code.NO_RDMA_DEVICES)
    told = "; ".join(why.sentence for why in devices)
    return reason(Code.NOTHING_TO_OFFER, count=str(len(devices)), devices=told)


def status(view: View, containers: tuple[Container, ...]) -> Status:
    """The answer of /status."""
    hcas = {hca.address: hca for hca in view.machine.hcas} if view.machine else {}
    return Status(
        version=view.version,
        not_ready=not_ready(view),
        pool=view.pool,
        registration=view.registration,
        nothing_offered=nothing_offered(view.machine) if view.machine else None,
        seats=tuple(_seat_status(one, hcas.get(one.hca) if one.hca else None) for one in view.offer),
        containers=containers,
        machine=view.machine,
    )


def _seat_status(offered: OfferedSeat, hca: Hca | None) -> SeatStatus:
    return SeatStatus(
        id=offered.seat.id,
        numa_nodes=offered.seat.numa_nodes,
        hca=offered.hca,
        name=hca.name if hca else None,
        device=hca.uverbs.name if hca else None,
        held=offered.held,
        healthy=offered.illness is None,
        reason=offered.illness,
    )
