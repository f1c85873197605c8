"""Sees to it that one agent alone serves a machine: two would give the same HCA to two containers.

It must not give up: the other one may be on its way out.
"""

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Final, Never

from structlog.typing import FilteringBoundLogger

from railside_proto.names import AGENT_LOCK
from railside_runtime.worker import Worker

RETRY_SECONDS: Final = 0.2

CHECK_SECONDS: Final = 5.0

DISK_DEADLINE_SECONDS: Final = 2.0


class DisplacedError(Exception):
    """Raised by ``OnlyAgent.stay`` where another agent has taken the machine; the operator reads it."""


class OnlyAgent:
    """The lock of one machine, held from ``until_alone`` to the end of the process."""

    def __init__(self, root: Path, log: FilteringBoundLogger) -> None:
        """Lock below ``root``."""
        self._path = root / AGENT_LOCK
        self._log = log
        self._worker = Worker("lock")
        self._descriptor: int | None = None

    async def until_alone(self) -> None:
        """Return when no other agent serves the machine. Where no lock can be made, that is told instead."""
        told = False
        while True:
            try:
                if await self._worker.run(self._lock, DISK_DEADLINE_SECONDS):
                    return
            except (OSError, TimeoutError) as error:
                self._log.error("whether another agent runs cannot be told", detail=str(error) or "the disk hangs")
                return
            if not told:
                self._log.warning("another agent serves this machine, and is waited for", lock=str(self._path))
            told = True
            await asyncio.sleep(RETRY_SECONDS)

    async def stay(self, *, every_seconds: float = CHECK_SECONDS) -> Never:
        """See that the lock is still what another agent would meet: somebody may have emptied its folder.

        Raises DisplacedError where another agent has it by now: it will not give way.
        """
        while True:
            await asyncio.sleep(every_seconds)
            try:
                if await self._worker.run(self._is_ours, DISK_DEADLINE_SECONDS):
                    continue
                if not await self._worker.run(self._lock, DISK_DEADLINE_SECONDS):
                    raise DisplacedError(f"another agent serves this machine: {self._path} was taken away from us")
            except (OSError, TimeoutError):
                # Nobody can tell now; the next check may.
                continue
            self._log.warning("the agents' lock was taken away, and is made anew", lock=str(self._path))

    def give_up(self) -> None:
        """Let the next one in."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _lock(self) -> bool:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError:
            os.close(descriptor)
            raise
        self.give_up()
        self._descriptor = descriptor
        return True

    def _is_ours(self) -> bool:
        """Whether the file that was locked is still the one at the path; so too where none could be locked."""
        if self._descriptor is None:
            return True
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        except FileNotFoundError:
            return False
