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
from railside_agent.outlook import Named, Outlook
from railside_agent.seats import Offer
from railside_agent.state_file import Remembered, StateFile
from railside_proto.machine import Machine
from railside_proto.pool import Binding
from railside_runtime.cell import Cell, until_any_changes
from railside_runtime.worker import Worker

DISK_DEADLINE_SECONDS: Final = 2.0

LAST_WORD_SECONDS: Final = 0.3
"""How long a disk may hold up the agent's end."""

RETRY_SECONDS: Final = 5.0

COLLECT_SECONDS: Final = 60.0
"""Between two looks for folders of ended containers."""


class TwoLooks:
    """Tells what may be taken away: what two looks in a row do not name, as one may meet a wrong file."""

    def __init__(self) -> None:
        """Nothing was looked at yet."""
        self._before: Named | None = None

    def kept(self, named: Named | None) -> Named | None:
        """What must stay behind a look that found ``named``, None in doubt; None where all must stay."""
        before, self._before = self._before, named
        return None if named is None or before is None else named | before


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
        collect_seconds: float = COLLECT_SECONDS,
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
        self._collect_seconds = collect_seconds

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
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_in_order(), name="order")
            tasks.create_task(self._keep_collecting(), name="collection")
        raise AssertionError("every task of the group runs for ever")

    async def _keep_in_order(self) -> Never:
        try:
            await self._keep_in_order_for_ever()
        finally:
            # What was bound a moment before the end.
            await self._remember(LAST_WORD_SECONDS)

    async def _keep_in_order_for_ever(self) -> Never:
        while True:
            # The connection manager's node is in no list, and in every container's folder.
            sight = self._outlook.sight
            cells = (self._offer, sight.inventory.latest, sight.kubelet)
            seen: list[tuple[Cell[object], object]] = [(cell, cell.value) for cell in cells]  # type: ignore[misc]
            done = [await self._renew(), await self._remember()]
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

    async def _keep_collecting(self) -> Never:
        looks = TwoLooks()
        while True:
            await asyncio.sleep(self._collect_seconds)
            kept = looks.kept(self._outlook.named(self._allocations.bindings.value))
            if kept is not None:
                await self._allocations.collect(kept)

    async def _remember(self, deadline_seconds: float = DISK_DEADLINE_SECONDS) -> bool:
        remembered = Remembered(
            mode=self._outlook.remembered,
            policy=self._outlook.policy,
            books=self._outlook.books,
            bindings=self._allocations.bindings.value,
        )
        try:
            return await self._worker.run(lambda: self._state.remember(remembered), deadline_seconds)
        except TimeoutError:
            self._log.error("the state could not be remembered", detail="the disk hangs")
            return False
