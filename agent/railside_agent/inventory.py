"""Keeps looking at the machine and at what its containers hold: in a thread, within a deadline, again and again.

It must not decide what is offered, and must not lose what it knew when a look fails.
"""

import asyncio
from pathlib import Path
from typing import Final, Never

import msgspec
from structlog.typing import FilteringBoundLogger

from railside_agent.device_nodes import DeviceNodes
from railside_agent.discovery import discover
from railside_agent.holders import HeldId, held_ids
from railside_agent.sysfs import read_whole_machine
from railside_proto.machine import Machine
from railside_proto.pool import Pool
from railside_runtime.cell import Cell
from railside_runtime.worker import Worker

LOOK_DEADLINE_SECONDS: Final = 10.0
"""Reading a port's files can reach the card's firmware, and hang while that resets."""

LARGEST_CHECKPOINT_BYTES: Final = 1 << 26


class LookError(Exception):
    """Raised by ``look`` when the tree could not be read; the reader keeps what it knew."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What one look gave."""

    machine: Machine
    held: tuple[HeldId, ...] | None
    """None where the kubelet's checkpoint makes no sense."""


class Inventory:
    """The machine and its holders as of the last look."""

    def __init__(
        self,
        root: Path,
        nodes: DeviceNodes,
        *,
        pool: Pool,
        checkpoint: Path,
        resync_seconds: float,
        log: FilteringBoundLogger,
        deadline_seconds: float = LOOK_DEADLINE_SECONDS,
    ) -> None:
        """Look below ``root`` and at the kubelet's ``checkpoint``; nothing is read before the first ``look``."""
        self._root = root
        self._nodes = nodes
        self._pool = pool
        self._checkpoint = checkpoint
        self._resync_seconds = resync_seconds
        self._log = log
        self._deadline_seconds = deadline_seconds
        self._worker = Worker("look")
        self.latest: Cell[Look | None] = Cell(None)
        self.problem: Cell[str | None] = Cell(None)
        """Why the last look failed; None while looks succeed."""

    async def look(self) -> Machine:
        """Read everything now, and tell all who follow ``latest``. Raises LookError."""
        try:
            latest = await self._look_once()
        except LookError as error:
            self.problem.set(str(error))
            raise
        self.problem.set(None)
        self.latest.set(latest)
        return latest.machine

    async def run(self) -> Never:
        """Look at once, and then at every resync."""
        while True:
            try:
                await self.look()
            except LookError as error:
                self._log.warning("the machine could not be looked at", detail=str(error))
            await asyncio.sleep(self._resync_seconds)

    async def _look_once(self) -> Look:
        try:
            return await self._worker.run(self._look, self._deadline_seconds)
        except TimeoutError:
            raise LookError(f"sysfs did not answer within {self._deadline_seconds:g} s") from None
        except OSError as error:
            raise LookError(str(error)) from error
        except Exception as error:
            # A bug met on an odd tree must not end the agent: pods that run depend on it.
            self._log.exception("this is a bug: the tree could not be understood")
            raise LookError(f"{type(error).__name__}: {error}") from error

    def _look(self) -> Look:
        return Look(machine=discover(read_whole_machine(self._root, self._nodes)), held=self.read_held())

    def read_held(self) -> tuple[HeldId, ...] | None:
        """What containers hold; None where the checkpoint cannot be read or makes no sense. Blocks."""
        try:
            with self._checkpoint.open("rb") as file:
                content = file.read(LARGEST_CHECKPOINT_BYTES)
        except FileNotFoundError:
            return ()
        except OSError:
            return None
        return held_ids(content, self._pool.resource)
