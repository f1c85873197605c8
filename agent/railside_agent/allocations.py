"""What is laid out on disk for the containers of one pool: kept true, collected, and published as what is bound.

One worker does all of it, one step at a time and in the order of asking, so that nothing happens between a look at
what is bound and the new directory. It must not decide what a container gets.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from structlog.typing import FilteringBoundLogger

from railside_agent.allocation_file import allocation_files
from railside_agent.binding import Bound
from railside_agent.container_edits import Style, allocation_key, contents
from railside_agent.container_start import ContainerStart
from railside_agent.device_dirs import DeviceDirectories
from railside_agent.start_decision import StartDecision, renewed
from railside_proto.machine import Machine
from railside_proto.pool import Binding, Pool
from railside_runtime.cell import Cell
from railside_runtime.worker import Worker

T = TypeVar("T")

HOUSE_DEADLINE_SECONDS: Final = 7.0
"""For what no container waits for."""

IN_FLIGHT_SECONDS: Final = 10.0
"""How long a dealt id may be missing from the kubelet's checkpoint: it is written when the container's other
resources are dealt, too."""

InFlight = Mapping[str, int]
"""Seats that were dealt a moment ago, each with the number of the deal."""


class Allocations:
    """The containers' directories of one pool, as the event loop uses them."""

    def __init__(
        self,
        pool: Pool,
        style: Style,
        directories: DeviceDirectories,
        *,
        in_flight: Cell[InFlight],
        replayed: bool,
        log: FilteringBoundLogger,
    ) -> None:
        """Keep ``in_flight`` what was dealt a moment ago.

        ``replayed`` is whether the kubelet replays the very nodes of each container: a directory with others would
        be a lie, and what has changed is only told.
        """
        self.pool = pool
        self.style = style
        self._directories = directories
        self._in_flight = in_flight
        self._replayed = replayed
        self._log = log
        self._deals = 0
        self._untold: list[Binding] = []
        self._known_untrue: frozenset[str] = frozenset()
        """Keys of replayed containers that were told of already."""
        # One after the other: what was asked earlier must not undo what was asked later.
        self._worker = Worker("directories")
        self.bindings: Cell[tuple[Binding, ...]] = Cell(())
        """What is bound now; empty until ``recall``."""

    async def recall(self, remembered: tuple[Binding, ...] = ()) -> None:
        """Read what an earlier run bound, or what is ``remembered`` of it. Raises OSError or TimeoutError."""
        bound = {self.key(one.seats): one for one in remembered}
        await self.run(lambda directories: directories.recall(bound), HOUSE_DEADLINE_SECONDS)

    async def renew(self, machine: Machine) -> tuple[tuple[Binding, ...], bool]:
        """Take away what was laid out for HCAs that have gone or are called or numbered otherwise by now.

        What can be laid out anew is, for a start of which nobody asks us. Containers that run must be restarted,
        and are returned, each once; and whether all was done, or it must be tried again.
        """
        try:
            problem = await self.run(lambda directories: self._renew(directories, machine), HOUSE_DEADLINE_SECONDS)
        except (OSError, TimeoutError) as error:
            problem = error
        if problem is not None:
            self._log.error("what is no longer true could not be withdrawn", detail=text_of(problem))
        outdated = tuple(self._untold)
        del self._untold[: len(outdated)]
        return outdated, problem is None

    async def collect(self, kept: frozenset[tuple[str, ...]]) -> None:
        """Take away the folders of containers that are gone: all but those with the seats in ``kept``."""
        keys = {self.key(seats) for seats in kept}
        try:
            await self.run(lambda directories: directories.collect(keys), HOUSE_DEADLINE_SECONDS)
        except (OSError, TimeoutError) as error:
            self._log.warning("folders of ended containers could not be taken away", detail=text_of(error))

    async def run(
        self, step: Callable[[DeviceDirectories], T], deadline_seconds: float, *, however_late: bool = False
    ) -> T:
        """What ``step`` makes of the directories, in the worker's thread; what is bound is published behind it.

        Raises what it raises, and TimeoutError at the deadline; a step that has not begun by then is dropped,
        unless it must be done ``however_late``.
        """
        try:
            return await self._worker.run(
                lambda: step(self._directories), deadline_seconds, however_late=however_late
            )
        finally:
            self.bindings.set(self._directories.known)

    async def close(self, seats: tuple[str, ...], deadline_seconds: float) -> None:
        """See that no start with ``seats`` finds anything, however late.

        What was bound is not forgotten: another container with these seats may be running.
        """
        key = self.key(seats)
        try:
            await self.run(lambda directories: directories.close(key), deadline_seconds, however_late=True)
        except (OSError, TimeoutError) as error:
            self._log.error("the container's folder could not be withdrawn", detail=text_of(error))

    def note_deal(self, seats: tuple[str, ...]) -> int:
        """Count ``seats`` as held until the kubelet's checkpoint must show them; the number of this deal."""
        self._deals += 1
        dealt = dict.fromkeys(seats, self._deals)
        self._in_flight.set({**self._in_flight.value, **dealt})
        asyncio.get_running_loop().call_later(IN_FLIGHT_SECONDS, self.forget_deal, self._deals)
        return self._deals

    def forget_deal(self, deal: int) -> None:
        """Count its seats as held no longer, but for those that were dealt again meanwhile."""
        self._in_flight.set({seat: number for seat, number in self._in_flight.value.items() if number != deal})

    def key(self, seats: tuple[str, ...]) -> str:
        """Name of the folder for ``seats``."""
        return allocation_key(self.pool, seats)

    # From here on in the worker's thread

    def lay_out(
        self, directories: DeviceDirectories, bound: Bound, start: ContainerStart, machine: Machine
    ) -> None:
        """Make what ``bound`` says what the container's start finds. Raises OSError."""
        files = allocation_files(bound, start)
        directories.lay_out(self.key(bound.seats), contents(bound, machine, self.style, files), bound.binding)

    def _renew(self, directories: DeviceDirectories, machine: Machine) -> OSError | None:
        """One folder after the other, so that one that refuses keeps no other; the last refusal."""
        untrue = directories.untrue(machine)
        if self._replayed:
            # The directory is what nobody finds; each start is checked against it, and may be true again by then.
            self._untold += [binding for key, binding in untrue.items() if key not in self._known_untrue]
            self._known_untrue = frozenset(untrue)
            return None
        refusal = None
        for key, binding in untrue.items():
            try:
                directories.close(key)
                self._untold.append(binding)
                self._lay_out_anew(directories, renewed(binding, machine), machine)
            except OSError as error:
                refusal = error
        return refusal

    def _lay_out_anew(
        self, directories: DeviceDirectories, decision: StartDecision | None, machine: Machine
    ) -> None:
        if decision is not None and isinstance(decision.outcome, Bound):
            self.lay_out(directories, decision.outcome, decision.start, machine)


def text_of(error: Exception) -> str:
    """What went wrong; a deadline says nothing itself."""
    return str(error) or "it took too long"
