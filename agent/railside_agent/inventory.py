"""Keeps looking at the machine: reads the tree in a thread, within a deadline, again and again.

It must not decide what is offered, and must not lose what it knew when a look fails.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Never

from structlog.typing import FilteringBoundLogger

from railside_agent.device_nodes import DeviceNodes
from railside_agent.discovery import discover
from railside_agent.sysfs import read_machine
from railside_proto.machine import Machine
from railside_runtime.cell import Cell

LOOK_DEADLINE_SECONDS: Final = 10.0
"""Reading a port's files can reach the card's firmware, and hang while that resets."""


class LookError(Exception):
    """Raised by ``look`` when the tree could not be read in time; the reader keeps what it knew."""


class Inventory:
    """The machine as of the last look."""

    def __init__(
        self,
        root: Path,
        nodes: DeviceNodes,
        *,
        resync_seconds: float,
        log: FilteringBoundLogger,
        deadline_seconds: float = LOOK_DEADLINE_SECONDS,
    ) -> None:
        """Look below ``root``; nothing is read before the first ``look``."""
        self._root = root
        self._nodes = nodes
        self._resync_seconds = resync_seconds
        self._log = log
        self._deadline_seconds = deadline_seconds
        self._looking = asyncio.Lock()
        # A look that hangs holds a thread for as long; of its own, so that no other part of the agent runs out.
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="look")
        self.machine: Cell[Machine | None] = Cell(None)

    async def look(self) -> Machine:
        """Read the tree now, and tell all who follow ``machine``. Raises LookError."""
        # One look at a time: an older one must not overwrite what a newer one saw.
        async with self._looking:
            try:
                async with asyncio.timeout(self._deadline_seconds):
                    machine = await asyncio.get_running_loop().run_in_executor(self._reader, self._look)
            except TimeoutError:
                raise LookError(f"sysfs did not answer within {self._deadline_seconds:g} s") from None
            self.machine.set(machine)
            return machine

    async def run(self) -> Never:
        """Look at once, and then at every resync."""
        while True:
            try:
                await self.look()
            except LookError as error:
                self._log.warning("the machine could not be looked at", detail=str(error))
            await asyncio.sleep(self._resync_seconds)

    def _look(self) -> Machine:
        return discover(read_machine(self._root, self._nodes))
