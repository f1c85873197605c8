"""What happens to a container on its way: it is dealt seats, and at each start it is bound and laid out.

It orders the steps and keeps the deadlines. It must not decide what they mean: the core does.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from railside_agent.allocations import Allocations, text_of
from railside_agent.binding import Bound, Refused
from railside_agent.container_edits import ContainerEdits, edits
from railside_agent.device_dirs import DeviceDirectories
from railside_agent.inventory import LookError
from railside_agent.start_decision import Call, StartDecision
from railside_agent.sysfs import has_virtual_topology
from railside_proto.machine import Hca, Machine
from railside_proto.pool import Binding
from railside_proto.reasons import Code, Reason, reason

DEAL_DEADLINE_SECONDS: Final = 0.05
"""Allocate holds up every pod of the node."""

START_DEADLINE_SECONDS: Final = 7.0
"""For one attempt."""

PATIENCE_SECONDS: Final = 20.0
"""For all attempts and the looks between them: well below the 30 s that the kubelet gives a PreStartContainer,
so that the user gets a sentence."""

CLOSE_SECONDS: Final = 1.0
"""A refusal does not wait longer for the folder to be closed, which is done all the same."""


class Outlook(Protocol):
    """What starts are decided on."""

    @property
    def has_topology(self) -> bool:
        """Whether the host had a virtualTopology.xml when it was last looked at."""

    async def refresh(self) -> None:
        """Read the kubelet's checkpoint, which tells whose container starts."""

    async def look(self) -> object:
        """Look at the whole machine. Raises LookError."""

    def decide(
        self, call: Call, seats: tuple[str, ...], bindings: tuple[Binding, ...]
    ) -> tuple[StartDecision, Machine]:
        """The decision, and the machine that it rests on. Called in a worker's thread."""

    def is_present(self, hcas: tuple[Hca, ...]) -> bool:
        """Whether ``hcas`` are called and numbered so at this moment. Blocks; called in a worker's thread."""


class ContainerStarts:
    """Serves the containers of one pool, whose HCAs are chosen at each start."""

    def __init__(
        self,
        root: Path,
        allocations: Allocations,
        *,
        outlook: Outlook,
        told: Callable[[StartDecision], None],
        log: FilteringBoundLogger,
    ) -> None:
        """Decide on ``outlook``, and carry it out in ``allocations``; each decision is ``told``."""
        self._root = root
        self._allocations = allocations
        self._outlook = outlook
        self._told = told
        self._log = log

    async def deal(self, seats: tuple[str, ...]) -> ContainerEdits | Refused:
        """What the kubelet is told for a container that it gives ``seats``, once; nothing is bound yet."""
        self._allocations.note_deal(seats)
        topology = self._outlook.has_topology
        try:
            # However late: what earlier holders of the seats were given must go.
            topology = await self._allocations.run(
                lambda disk: self._prepare(disk, seats), DEAL_DEADLINE_SECONDS, however_late=True
            )
        except (OSError, TimeoutError) as error:
            # An error here would fail the pod for good. Its start makes the folder, or is refused and tried again.
            self._log.warning("the container's folder could not be made yet", seats=seats, detail=text_of(error))
        return edits(self._allocations.pool, seats, self._allocations.style, virtual_topology=topology)

    async def start(self, seats: tuple[str, ...]) -> Bound | Refused:
        """Bind ``seats`` as things are now, and lay out what the container will find; nothing if refused."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                decision = await self._decided(seats)
        except TimeoutError:
            decision = await self._refused(seats, reason(Code.LOOK_FAILED, detail="it takes too long"))
        self._told(decision)
        return decision.outcome

    async def _decided(self, seats: tuple[str, ...]) -> StartDecision:
        await self._outlook.refresh()
        decision = await self._attempted(seats)
        if decision is None or isinstance(decision.outcome, Refused):
            # What was known of the machine may be old: look, and try once more.
            decision = await self._looked_and_attempted(seats)
        return decision

    async def _looked_and_attempted(self, seats: tuple[str, ...]) -> StartDecision:
        try:
            await self._outlook.look()
        except LookError as error:
            return await self._refused(seats, reason(Code.LOOK_FAILED, detail=str(error)))
        decision = await self._attempted(seats)
        return decision or await self._refused(seats, reason(Code.LOOK_FAILED, detail="it changes all the time"))

    async def _attempted(self, seats: tuple[str, ...]) -> StartDecision | None:
        """The decision, carried out; None where the machine has changed since it was looked at."""
        try:
            # Also behind a start that outlives its deadline: it must not bind what was refused.
            return await self._allocations.run(lambda disk: self._attempt(disk, seats), START_DEADLINE_SECONDS)
        except (OSError, TimeoutError) as error:
            return await self._refused(seats, directory_failed(seats, error))

    async def _refused(self, seats: tuple[str, ...], why: Reason) -> StartDecision:
        await self._allocations.close(seats, CLOSE_SECONDS)
        return StartDecision.refusal(seats, why)

    # From here on in the worker's thread

    def _prepare(self, disk: DeviceDirectories, seats: tuple[str, ...]) -> bool:
        """Make the folders; whether the host has a topology to mount now, as the answer is kept for good."""
        disk.prepare(self._allocations.key(seats), seats)
        return has_virtual_topology(self._root)

    def _attempt(self, disk: DeviceDirectories, seats: tuple[str, ...]) -> StartDecision | None:
        decision, machine = self._outlook.decide(Call.START, seats, disk.bindings())
        match decision.outcome:
            case Refused():
                self._refuse(disk, decision)
            case Bound() as bound:
                if not self._outlook.is_present(bound.hcas):
                    return None
                for before in decision.replaces(disk.bindings()):
                    disk.withdraw(self._allocations.key(before.seats))
                self._allocations.lay_out(disk, bound, decision.start, machine)
        return decision

    def _refuse(self, disk: DeviceDirectories, decision: StartDecision) -> None:
        key = self._allocations.key(decision.start.seats)
        if decision.undoes(disk.bindings()):
            disk.withdraw(key)
        else:
            disk.close(key)


def directory_failed(seats: tuple[str, ...], error: Exception) -> Reason:
    """Why a container must not start whose directory could not be made."""
    return reason(Code.DEVICE_DIRECTORY_FAILED, device=", ".join(seats), detail=text_of(error))
