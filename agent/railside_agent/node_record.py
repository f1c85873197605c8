"""Keeps the node's record: has the kubelet asked for what it rests on, puts it together, and has it published.

It must hold no decision: what the record says and what becomes of it is decided elsewhere.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Never

from structlog.typing import FilteringBoundLogger

from railside_agent.dealt_gpus import lacks_places
from railside_agent.holders import Checkpoint
from railside_agent.podresources import PodResources
from railside_agent.publication import Publication, is_on
from railside_agent.publisher import Api, Publisher
from railside_agent.report import Known, report
from railside_agent.settings import Settings
from railside_agent.sight import Sight
from railside_agent.view import View
from railside_proto.names import BOOT_ID
from railside_proto.record import Record
from railside_runtime.cell import Cell

UNKNOWN_BOOT: Final = ""


class NodeRecord:
    """The record of one agent's node."""

    def __init__(
        self,
        settings: Settings,
        api: Api,
        *,
        sight: Sight,
        holdings: PodResources,
        view: Callable[[], View],
        sources: Sequence[Cell[Any]],
        log: FilteringBoundLogger,
    ) -> None:
        """Say what ``view`` shows, which rests on ``sight`` and on ``sources``; ``holdings`` asks for places."""
        self._settings = settings
        self._sight = sight
        self._holdings = holdings
        self._view = view
        self._checkpoint = Checkpoint()
        self._boot_id = UNKNOWN_BOOT
        self._cells: tuple[Cell[Any], ...] = (
            *sources,
            sight.inventory.latest,
            sight.checkpoint.latest,
            sight.node,
            sight.pods,
            sight.holdings,
            sight.kubelet,
        )
        self._publisher = Publisher(
            api,
            settings.node_name,
            log,
            needed=settings.publish == "always",
            report=self._report,
            sources=lambda: [(cell, cell.value) for cell in self._cells],
        )
        self._is_on = is_on(settings.publish, settings.node_name)

    @property
    def publication(self) -> Publication:
        """What became of the record."""
        return self._publisher.publication.value if self._is_on else Publication()

    async def run(self) -> Never:
        """Publish until cancelled, where the settings say so."""
        if not self._is_on:
            await asyncio.Event().wait()
        self._boot_id = await asyncio.to_thread(_boot_id)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._publisher.run(), name="publisher")
            tasks.create_task(self._ask_for_places(), name="places of GPUs")
        raise AssertionError("every task of the group runs for ever")

    def _report(self) -> Record | None:
        _, understood = self._sight.holders()
        self._checkpoint = understood or self._checkpoint
        return report(
            Known(
                view=self._view(),
                checkpoint=self._checkpoint,
                gpu_resources=self._settings.gpu_resources,
                boot_id=self._boot_id,
                agent_uid=self._settings.pod_uid,
            )
        )

    async def _ask_for_places(self) -> Never:
        """The kubelet's checkpoint tells of new GPUs at once, and its other account only when it is asked."""
        async for _ in self._sight.checkpoint.latest.changes():
            _, understood = self._sight.holders()
            said = self._sight.holdings.value
            if lacks_places(understood, said.allocatable if said else None, self._settings.gpu_resources):
                self._holdings.look_for_places()
        raise AssertionError("a cell's changes have no end")


def _boot_id() -> str:
    """Blocks. A kernel that does not tell it is always in the same boot."""
    try:
        return Path(BOOT_ID).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return UNKNOWN_BOOT
