"""Keeps the list of a pool in step with everything that it rests on: at each change, the whole of it anew.

It must not decide what is listed: the core does.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Never

from structlog.typing import FilteringBoundLogger

from railside_agent.allocations import Allocations, text_of
from railside_agent.housekeeping import COLLECT_SECONDS, Housekeeping
from railside_agent.outlook import Outlook
from railside_agent.seats import Offer
from railside_agent.state_file import StateFile
from railside_proto.pool import Binding
from railside_runtime.cell import Cell, until_any_changes


class Offering:
    """The offer of one pool."""

    def __init__(
        self,
        outlook: Outlook,
        *,
        allocations: Allocations,
        state: StateFile,
        restart: Callable[[Binding], None],
        calm: Callable[[], Awaitable[object]],
        log: FilteringBoundLogger,
        collect_seconds: float = COLLECT_SECONDS,
    ) -> None:
        """Write to ``offer``, as its only writer.

        ``restart`` is told whose containers run on what is untrue; ``calm`` returns when no container waits for
        an answer, or after a moment.
        """
        self.offer: Cell[Offer] = Cell(Offer())
        self._outlook = outlook
        self._allocations = allocations
        self._calm = calm
        self._log = log
        self._house = Housekeeping(
            outlook,
            offer=self.offer,
            allocations=allocations,
            state=state,
            restart=restart,
            log=log,
            collect_seconds=collect_seconds,
        )

    async def run(self) -> Never:
        """List what was remembered at once, and go on from there with every change."""
        await self._recall()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_listing(), name="list")
            tasks.create_task(self._house.run(), name="housekeeping")
        raise AssertionError("every task of the group runs for ever")

    async def _recall(self) -> None:
        """All that an earlier run left."""
        await self._outlook.sight.checkpoint.read_patiently()
        remembered = await self._house.recalled()
        self._outlook.remember(remembered.mode)
        self._outlook.remembered_policy = remembered.policy
        self._outlook.books = remembered.books
        try:
            await self._allocations.recall(remembered.bindings)
        except (OSError, TimeoutError) as error:
            self._log.error("the bound containers could not be read", detail=text_of(error))
        await self._outlook.policy_heard()

    async def _keep_listing(self) -> Never:
        while True:
            # A list made while a container waits for its call would hold that up, and be old when it is done.
            await self._calm()
            seen = self._sources()
            again_in = self._list()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(again_in):
                    await until_any_changes(seen)

    def _sources(self) -> list[tuple[Cell[object], object]]:
        """Everything that the list rests on, and what it was when the list was made."""
        sight = self._outlook.sight
        cells = (
            sight.inventory.latest,
            sight.checkpoint.latest,
            sight.checkpoint.problem,
            sight.node,
            sight.pods,
            sight.kubelet,
            self._allocations.bindings,
            self._outlook.in_flight,
            self._outlook.heard,
        )
        return [(cell, cell.value) for cell in cells]  # type: ignore[misc]

    def _list(self) -> float | None:
        """Make the list anew; in how many seconds it would change by itself."""
        outlook = self._outlook
        mode = outlook.mode
        if mode.source != "memory":
            outlook.remember(mode.mode)
        made, now = outlook.list_now(self._allocations.bindings.value)
        self.offer.set(made)
        return None if made.changes_at is None else max(0.0, made.changes_at - now)
