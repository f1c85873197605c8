"""Puts out of the way what is no longer true or needed, and writes down what must outlive the agent.

Beside the list and never before it: a disk that is slow must not delay what the kubelet is told. It must not
decide what is true.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Never

from structlog.typing import FilteringBoundLogger

from railside_agent.allocations import Allocations
from railside_agent.holders import Checkpoint
from railside_agent.outlook import Outlook
from railside_agent.seats import Offer
from railside_agent.state_file import Remembered, StateFile
from railside_proto.machine import Machine
from railside_proto.pool import Binding
from railside_runtime.cell import Cell, until_any_changes
from railside_runtime.worker import Worker

DISK_DEADLINE_SECONDS: Final = 2.0

RETRY_SECONDS: Final = 5.0


class Housekeeping:
    """The folders and the state of one pool."""

    def __init__(
        self,
        outlook: Outlook,
        *,
        offer: Cell[Offer],
        allocations: Allocations,
        state: StateFile,
        restart: Callable[[Binding], None],
        log: FilteringBoundLogger,
    ) -> None:
        """Work behind each ``offer``; ``restart`` is told whose containers run on what is untrue."""
        self._outlook = outlook
        self._offer = offer
        self._allocations = allocations
        self._state = state
        self._restart = restart
        self._log = log
        self._worker = Worker("state")
        self._renewed: Machine | None = None
        self._collected: Checkpoint | None = None

    async def recalled(self) -> Remembered:
        """What an earlier run wrote down. A disk that hangs is waited for: ids that pods hold must be listed."""
        while True:
            try:
                return await self._worker.run(self._state.recall, DISK_DEADLINE_SECONDS)
            except TimeoutError:
                self._log.error("the disk hangs, and nothing is offered before it answers")
                await asyncio.sleep(RETRY_SECONDS)

    async def run(self) -> Never:
        """Work behind each list, and again after a while where something could not be done."""
        while True:
            seen: list[tuple[Cell[object], object]] = [(self._offer, self._offer.value)]  # type: ignore[list-item]
            done = [await self._renew(), await self._collect(), await self._remember()]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if all(done) else RETRY_SECONDS):
                    await until_any_changes(seen)

    async def _renew(self) -> bool:
        look = self._outlook.sight.look
        if look is None or look.machine == self._renewed:
            return True
        outdated, done = await self._allocations.renew(look.machine)
        for binding in outdated:
            self._restart(binding)
        self._renewed = look.machine if done else None
        return done

    async def _collect(self) -> bool:
        """Once for each checkpoint that can be trusted: what it does not name any more is gone."""
        holders = self._outlook.trusted(self._allocations.bindings.value)
        if holders is not None and holders is not self._collected:
            self._collected = holders
            named = holders.of(self._outlook.pool.resource)
            await self._allocations.collect(frozenset(entry.names for entry in named))
        return True

    async def _remember(self) -> bool:
        remembered = Remembered(
            mode=self._outlook.remembered, books=self._outlook.books, bindings=self._allocations.bindings.value
        )
        try:
            return await self._worker.run(lambda: self._state.remember(remembered), DISK_DEADLINE_SECONDS)
        except TimeoutError:
            self._log.error("the state could not be remembered", detail="the disk hangs")
            return False
