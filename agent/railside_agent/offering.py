"""Keeps the list of a pool in step with everything that it rests on: at each change, the whole of it anew.

It must not decide what is listed: the core does.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, Never

from structlog.typing import FilteringBoundLogger

from railside_agent.holders import Checkpoint
from railside_agent.outlook import Outlook
from railside_agent.seats import Offer
from railside_agent.starts import ContainerStarts
from railside_agent.state_file import Remembered, StateFile
from railside_proto.machine import Machine
from railside_proto.pool import Binding
from railside_runtime.cell import Cell, until_any_changes
from railside_runtime.worker import Worker

DISK_DEADLINE_SECONDS: Final = 2.0
"""The disk may hang; the kubelet gives a list 1.2 s from its start and will not wait for it."""

RETRY_SECONDS: Final = 5.0


class Offering:
    """The offer of one pool."""

    def __init__(
        self,
        outlook: Outlook,
        *,
        starts: ContainerStarts,
        state: StateFile,
        restart: Callable[[Binding], None],
        calm: Callable[[], Awaitable[object]],
        log: FilteringBoundLogger,
    ) -> None:
        """Write to ``offer``, as its only writer.

        ``restart`` is told whose containers run on what is untrue; ``calm`` returns when no container waits for
        an answer, or after a moment.
        """
        self.offer: Cell[Offer] = Cell(Offer())
        self._outlook = outlook
        self._starts = starts
        self._state = state
        self._restart = restart
        self._calm = calm
        self._log = log
        self._worker = Worker("state")
        self._renewed: Machine | None = None
        self._collected: Checkpoint | None = None

    async def run(self) -> Never:
        """List what was remembered at once, and go on from there with every change."""
        await self._recall()
        while True:
            # A list made while a container waits for its call would hold that up, and be old when it is done.
            await self._calm()
            seen = self._sources()
            again_at = self._list()
            done = await self._keep_house()
            wait = None if done else RETRY_SECONDS
            if again_at is not None:
                wait = min(wait or again_at, again_at)
            await self._until_newer(seen, wait)

    async def _recall(self) -> None:
        """All that an earlier run left. A disk that hangs is waited for: ids that pods hold must be listed."""
        await self._outlook.sight.checkpoint.read_patiently()
        remembered = await self._patiently_recalled()
        self._outlook.remember(remembered.mode)
        self._outlook.books = remembered.books
        try:
            await self._starts.recall()
        except (OSError, TimeoutError) as error:
            self._log.error("the bound containers could not be read", detail=str(error))

    async def _patiently_recalled(self) -> Remembered:
        while True:
            try:
                return await self._worker.run(self._state.recall, DISK_DEADLINE_SECONDS)
            except TimeoutError:
                self._log.error("the disk hangs, and nothing is offered before it answers")
                await asyncio.sleep(RETRY_SECONDS)

    def _sources(self) -> list[tuple[Cell[object], object]]:
        """Everything that the list rests on, and what it was when the list was made."""
        sight = self._outlook.sight
        cells = (
            sight.inventory.latest,
            sight.checkpoint.latest,
            sight.node,
            sight.pods,
            self._starts.bindings,
            self._outlook.in_flight,
            self._outlook.heard,
        )
        return [(cell, cell.value) for cell in cells]  # type: ignore[misc]

    async def _until_newer(self, seen: list[tuple[Cell[object], object]], at_most_seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most_seconds):
                await until_any_changes(seen)

    def _list(self) -> float | None:
        """Make the list anew; in how many seconds it would change by itself."""
        outlook = self._outlook
        mode = outlook.mode
        if mode.source != "memory":
            outlook.remember(mode.mode)
        made, now = outlook.list_now(self._starts.bindings.value)
        self.offer.set(made)
        return None if made.changes_at is None else max(0.0, made.changes_at - now)

    async def _keep_house(self) -> bool:
        """Put what is no longer true out of the way, and write down what must outlive us; whether that is done."""
        renewed = await self._renew()
        await self._collect()
        remembered = Remembered(mode=self._outlook.remembered, books=self._outlook.books)
        try:
            return (
                await self._worker.run(lambda: self._state.remember(remembered), DISK_DEADLINE_SECONDS) and renewed
            )
        except TimeoutError:
            self._log.error("the state could not be remembered", detail="the disk hangs")
            return False

    async def _renew(self) -> bool:
        look = self._outlook.sight.look
        if look is None or look.machine == self._renewed:
            return True
        outdated = await self._starts.renew(look.machine)
        if outdated is None:
            return False
        self._renewed = look.machine
        for binding in outdated:
            self._restart(binding)
        return True

    async def _collect(self) -> None:
        """Once for each checkpoint that makes sense: what it does not name any more is gone."""
        _, holders = self._outlook.sight.holders()
        if holders is None or holders is self._collected:
            return
        self._collected = holders
        pool = self._outlook.pool
        await self._starts.collect(frozenset(entry.names for entry in holders.of(pool.resource)))
