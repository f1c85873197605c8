"""Keeps looking at the machine: at its start, when told that something has changed, and from time to time.

A look reads the tree in a thread, within a deadline, and asks the cards for their ports. It must not decide what
is offered, and must not lose what it knew when a look fails. There are never two looks at once, and who asks for
one during another gets one that began after they asked.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Never

import msgspec
from structlog.typing import FilteringBoundLogger

from railside_agent.device_nodes import DeviceNodes
from railside_agent.discovery import discover
from railside_agent.port_states import PortStates
from railside_agent.raw_machine import RawMachine, with_port_states
from railside_agent.sysfs import read_machine
from railside_proto.machine import Machine
from railside_runtime.cell import Cell
from railside_runtime.debounce import Debounce
from railside_runtime.worker import Worker

LOOK_DEADLINE_SECONDS: Final = 10.0
"""The tree needs no firmware, but a kernel in trouble can hang anywhere."""

DEBOUNCE_SECONDS: Final = 0.05
"""A device comes with a dozen messages, and its files fill behind them."""

SETTLE_SECONDS: Final = 1.0
"""When to look once more behind a change: udev gives device nodes their mode and may rename devices."""

RETRY_SECONDS: Final = 5.0
"""When to look again behind a look that failed."""


class LookError(Exception):
    """Raised by ``look`` when the tree could not be read; the reader keeps what it knew."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What one look gave."""

    machine: Machine
    raw: RawMachine
    at: float
    """When the tree was read, in seconds of the event loop's clock; ports may have answered since."""


class LookCosts(msgspec.Struct, frozen=True, kw_only=True):
    """What looking has cost so far."""

    looks: int = 0
    """Trees read."""
    merges: int = 0
    """Changes of ports that were understood without reading a tree."""
    failures: int = 0
    seconds: float = 0.0
    """Time that all of these took, waits for threads and cards included."""


class Inventory:
    """The machine as of the last look."""

    def __init__(
        self,
        root: Path,
        nodes: DeviceNodes,
        *,
        ports: PortStates,
        resync_seconds: float,
        log: FilteringBoundLogger,
        understand: Callable[[RawMachine], Machine] = discover,
        debounce_seconds: float = DEBOUNCE_SECONDS,
        deadline_seconds: float = LOOK_DEADLINE_SECONDS,
    ) -> None:
        """Look below ``root``; nothing is read before the first ``look``.

        ``ports`` is told which devices there are, and must be run by whoever runs this.
        """
        self._root = root
        self._nodes = nodes
        self._ports = ports
        self._resync_seconds = resync_seconds
        self._log = log
        self._understand = understand
        self._deadline_seconds = deadline_seconds
        self._signs = Debounce(debounce_seconds)
        self._worker = Worker("look")
        self._desk = Worker("understanding")
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[Look | str] | None = None
        self.latest: Cell[Look | None] = Cell(None)
        self.problem: Cell[str | None] = Cell(None)
        """Why the last look failed; None while looks succeed."""
        self.costs = LookCosts()

    def look_again(self) -> None:
        """Look soon, as something may have changed; many such signs are one. Returns at once."""
        self._signs.hear()

    async def look(self) -> Machine:
        """Read the tree anew, and tell all who follow ``latest``. Raises LookError."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._look_in_turn())
        # Who stops waiting stops nobody else's look.
        outcome = await asyncio.shield(self._next)
        if isinstance(outcome, str):
            raise LookError(outcome)
        return outcome.machine

    async def run(self) -> Never:
        """Look at once, at every sign, at every change of a port, and at every resync."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_looking(), name="looks")
            tasks.create_task(self._follow_ports(), name="changes of ports")
        raise AssertionError("every task of the group runs for ever")

    async def _keep_looking(self) -> Never:
        signs = False
        while True:
            pause = min(self._resync_seconds, SETTLE_SECONDS) if signs else self._resync_seconds
            try:
                await self.look()
            except LookError:
                pause = min(self._resync_seconds, RETRY_SECONDS)
            signs = await self._signs.calm_within(pause)

    async def _follow_ports(self) -> Never:
        async for _ in self._ports.latest.changes():
            await self._merge_in_turn()
        raise AssertionError("a cell's changes never end")

    async def _look_in_turn(self) -> Look | str:
        async with self._turn:
            # Whoever asks from here on may know of something that this look has passed already.
            self._next = None
            return await self._concluded(self._look_whole, merge=False)

    async def _merge_in_turn(self) -> None:
        async with self._turn:
            # As they are by now: while this waited for its turn, a look may have asked more cards.
            answers = self._ports.latest.value
            latest = self.latest.value
            if latest is None:
                return
            raw = with_port_states(latest.raw, answers)
            if raw != latest.raw:
                await self._concluded(lambda: self._understood(raw, latest.at), merge=True)

    async def _look_whole(self) -> Look:
        at = _now()
        raw = await self._worker.run(lambda: read_machine(self._root, self._nodes), self._deadline_seconds)
        self._ports.follow([device.name for device in raw.rdma_devices])
        return await self._understood(with_port_states(raw, await self._ports.ask_all()), at)

    async def _understood(self, raw: RawMachine, at: float) -> Look:
        # Not behind a look that hangs: what the cards say of their ports must be understood all the same.
        machine = await self._desk.run(lambda: self._understand(raw), self._deadline_seconds)
        return Look(machine=machine, raw=raw, at=at)

    async def _concluded(self, look: Callable[[], Awaitable[Look]], *, merge: bool) -> Look | str:
        """The outcome of one look or merge, told to all who follow."""
        began = _now()
        outcome = await self._tried(look)
        problem = outcome if isinstance(outcome, str) else None
        self.costs = LookCosts(
            looks=self.costs.looks + (not merge),
            merges=self.costs.merges + merge,
            failures=self.costs.failures + (problem is not None),
            seconds=self.costs.seconds + _now() - began,
        )
        if isinstance(outcome, Look):
            self.latest.set(outcome)
        self._say(problem)
        return outcome

    async def _tried(self, look: Callable[[], Awaitable[Look]]) -> Look | str:
        try:
            return await look()
        except TimeoutError:
            return f"sysfs did not answer within {self._deadline_seconds:g} s"
        except OSError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 -- a bug met on an odd tree must not end the agent
            self._log.error("this is a bug: the tree could not be understood", exc_info=error)
            return f"{type(error).__name__}: {error}"

    def _say(self, problem: str | None) -> None:
        # The same failure of the next try is no news.
        if problem is not None and problem != self.problem.value:
            self._log.warning("the machine could not be looked at", detail=problem)
        self.problem.set(problem)


def _now() -> float:
    return asyncio.get_running_loop().time()
