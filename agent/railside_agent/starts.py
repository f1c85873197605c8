"""What happens to a container on its way: it is dealt seats, and at each start it is bound and laid out.

It orders the steps and keeps the deadlines. It must not decide what they mean: the core does. Between the look
at what is bound and the new directory nothing else happens: one worker does both, one container at a time.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec
from structlog.typing import FilteringBoundLogger

from railside_agent.allocation_file import allocation_files
from railside_agent.binding import Bound, Refused
from railside_agent.container_edits import ContainerEdits, Style, allocation_key, contents, edits
from railside_agent.device_dirs import DeviceDirectories
from railside_agent.inventory import LookError
from railside_agent.start_decision import StartDecision, renewed
from railside_agent.sysfs import has_virtual_topology
from railside_proto.machine import Hca, Machine
from railside_proto.pool import Binding, Pool
from railside_proto.reasons import Code, Reason, reason
from railside_runtime.cell import Cell
from railside_runtime.worker import Worker

DEAL_DEADLINE_SECONDS: Final = 0.05
"""Allocate holds up every pod of the node."""

START_DEADLINE_SECONDS: Final = 7.0
"""With a look at the machine before it well below the 30 s that the kubelet gives a PreStartContainer."""

IN_FLIGHT_SECONDS: Final = 10.0
"""How long a dealt id may be missing from the kubelet's checkpoint: it is written when the container's other
resources are dealt, too."""


InFlight = Mapping[str, int]
"""Seats that were dealt a moment ago, each with the number of the deal."""


class Outlook(Protocol):
    """What starts are decided on."""

    @property
    def has_topology(self) -> bool:
        """Whether the host had a virtualTopology.xml when it was last looked at."""

    async def refresh(self) -> None:
        """Read the kubelet's checkpoint, which tells whose container starts."""

    async def look(self) -> object:
        """Look at the whole machine. Raises LookError."""

    def decide(self, seats: tuple[str, ...], bindings: tuple[Binding, ...]) -> tuple[StartDecision, Machine]:
        """The decision, and the machine that it rests on. Called in a worker's thread."""

    def decide_deal(self, seats: tuple[str, ...], bindings: tuple[Binding, ...]) -> tuple[StartDecision, Machine]:
        """The same for seats that are dealt at this moment. Called in a worker's thread."""

    def is_present(self, hcas: tuple[Hca, ...]) -> bool:
        """Whether ``hcas`` are called and numbered so at this moment. Blocks; called in a worker's thread."""


class PoolPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pool's containers are served, and how."""

    pool: Pool
    root: Path
    style: Style


class ContainerStarts:
    """Serves the containers of one pool, whose HCAs are chosen at each start."""

    def __init__(
        self,
        place: PoolPlace,
        *,
        outlook: Outlook,
        directories: DeviceDirectories,
        in_flight: Cell[InFlight],
        told: Callable[[StartDecision], None],
        log: FilteringBoundLogger,
    ) -> None:
        """Decide on ``outlook``, each decision is ``told``; keep ``in_flight`` what was dealt a moment ago."""
        self._place = place
        self._outlook = outlook
        self._directories = directories
        self._told = told
        self._log = log
        self._deals = 0
        self._untold: list[Binding] = []
        # One after the other: what was asked earlier must not undo what was asked later.
        self._worker = Worker("directories")
        self.bindings: Cell[tuple[Binding, ...]] = Cell(())
        """What is bound now; empty until ``recall``."""
        self._in_flight = in_flight

    async def recall(self, remembered: tuple[Binding, ...] = ()) -> None:
        """Read what an earlier run bound, or what is ``remembered`` of it. Raises OSError or TimeoutError."""
        bound = {allocation_key(self._place.pool, one.seats): one for one in remembered}
        await self._worker.run(lambda: self._directories.recall(bound), START_DEADLINE_SECONDS)
        self._publish()

    async def deal(self, seats: tuple[str, ...]) -> ContainerEdits | Refused:
        """What the kubelet is told for a container that it gives ``seats``, once; nothing is bound yet."""
        self._note_in_flight(seats)
        topology = self._outlook.has_topology
        try:
            topology = await self._worker.run(lambda: self._prepare(seats), DEAL_DEADLINE_SECONDS)
        except (OSError, TimeoutError) as error:
            # An error here would fail the pod for good. Its start makes the folder, or is refused and tried again.
            self._log.warning("the container's folder could not be made yet", seats=seats, detail=text_of(error))
        self._publish()
        return edits(self._place.pool, seats, self._place.style, virtual_topology=topology)

    async def start(self, seats: tuple[str, ...]) -> Bound | Refused:
        """Bind ``seats`` as things are now, and lay out what the container will find; nothing if refused."""
        await self._outlook.refresh()
        decision = await self._attempted(seats)
        if decision is None or isinstance(decision.outcome, Refused):
            # What was known of the machine may be old: look, and try once more.
            decision = await self._looked_and_attempted(seats)
        self._publish()
        self._told(decision)
        return decision.outcome

    async def renew(self, machine: Machine) -> tuple[tuple[Binding, ...], bool]:
        """Take away what was laid out for HCAs that have gone or are called or numbered otherwise by now.

        What can be laid out anew is, for a start of which nobody asks us. Containers that run must be restarted,
        and are returned, each once; and whether all was done, or it must be tried again.
        """
        try:
            problem = await self._worker.run(lambda: self._renew(machine), START_DEADLINE_SECONDS)
        except (OSError, TimeoutError) as error:
            problem = error
        if problem is not None:
            self._log.error("what is no longer true could not be withdrawn", detail=text_of(problem))
        outdated = tuple(self._untold)
        del self._untold[: len(outdated)]
        self._publish()
        return outdated, problem is None

    async def collect(self, kept: frozenset[tuple[str, ...]]) -> None:
        """Take away the folders of containers that are gone: all but those with the seats in ``kept``."""
        keys = {allocation_key(self._place.pool, seats) for seats in kept}
        try:
            await self._worker.run(lambda: self._directories.collect(keys), START_DEADLINE_SECONDS)
        except (OSError, TimeoutError) as error:
            self._log.warning("folders of ended containers could not be taken away", detail=text_of(error))
        self._publish()

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
            return await self._worker.run(lambda: self._attempt(seats), START_DEADLINE_SECONDS)
        except (OSError, TimeoutError) as error:
            devices = ", ".join(seats)
            why = reason(Code.DEVICE_DIRECTORY_FAILED, device=devices, detail=text_of(error))
            return await self._refused(seats, why)

    async def _refused(self, seats: tuple[str, ...], why: Reason) -> StartDecision:
        key = allocation_key(self._place.pool, seats)
        try:
            # Not forgotten: nothing was decided, and another container with these seats may be running.
            await self._worker.run(lambda: self._directories.close(key), START_DEADLINE_SECONDS, however_late=True)
        except (OSError, TimeoutError) as error:
            self._log.error("the container's folder could not be withdrawn", detail=text_of(error))
        return StartDecision.refusal(seats, why)

    # From here on in the worker's thread

    def _prepare(self, seats: tuple[str, ...]) -> bool:
        """Make the folders; whether the host has a topology to mount now, as the answer is kept for good."""
        self._directories.prepare(allocation_key(self._place.pool, seats), seats)
        return has_virtual_topology(self._place.root)

    def _attempt(self, seats: tuple[str, ...]) -> StartDecision | None:
        decision, machine = self._outlook.decide(seats, self._directories.bindings())
        match decision.outcome:
            case Refused():
                self._refuse(decision)
            case Bound() as bound:
                if not self._outlook.is_present(bound.hcas):
                    return None
                self._lay_out(decision, bound, machine)
        return decision

    def _refuse(self, decision: StartDecision) -> None:
        key = allocation_key(self._place.pool, decision.start.seats)
        if decision.start.pod is not None and len(decision.start.containers) == 1:
            self._directories.withdraw(key)
        else:
            # Somebody with the same seats, a sidecar or another pod, may be running on what was bound.
            self._directories.close(key)

    def _lay_out(self, decision: StartDecision, bound: Bound, machine: Machine) -> None:
        files = allocation_files(bound, decision.start)
        key = allocation_key(self._place.pool, bound.seats)
        self._directories.lay_out(key, contents(bound, machine, self._place.style, files), bound.binding)

    def _renew(self, machine: Machine) -> OSError | None:
        """One folder after the other, so that one that refuses keeps no other; the last refusal."""
        refusal = None
        for key, binding in self._directories.untrue(machine).items():
            try:
                self._directories.close(key)
                self._untold.append(binding)
                self._renew_one(binding, machine)
            except OSError as error:
                refusal = error
        return refusal

    def _renew_one(self, binding: Binding, machine: Machine) -> None:
        decision = renewed(binding, machine)
        if decision is not None and isinstance(decision.outcome, Bound):
            self._lay_out(decision, decision.outcome, machine)

    def _note_in_flight(self, seats: tuple[str, ...]) -> None:
        self._deals += 1
        dealt = dict.fromkeys(seats, self._deals)
        self._in_flight.set({**self._in_flight.value, **dealt})
        asyncio.get_running_loop().call_later(IN_FLIGHT_SECONDS, self._landed, self._deals)

    def _landed(self, deal: int) -> None:
        """A seat that was dealt again meanwhile is in flight by that later deal."""
        self._in_flight.set({seat: number for seat, number in self._in_flight.value.items() if number != deal})

    def _publish(self) -> None:
        self.bindings.set(self._directories.known)


def text_of(error: Exception) -> str:
    """What went wrong; a deadline says nothing itself."""
    return str(error) or "it took too long"
