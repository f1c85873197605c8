"""Sees the machine change: the looks, and all who tell that it is time for one. It must not decide anything."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Never

from structlog.typing import FilteringBoundLogger

from railside_agent.device_nodes import DeviceNodes
from railside_agent.discovery import discover
from railside_agent.inventory import Inventory
from railside_agent.pool_rules import pool_rules
from railside_agent.port_states import PortStates
from railside_agent.pyverbs_library import load_pyverbs
from railside_agent.settings import Settings
from railside_agent.sysfs import read_port_states
from railside_agent.uevents import Source, Uevents
from railside_agent.verbs import VerbsEvents
from railside_agent.virtual_topology import TopologySource


class MachineWatch:
    """The machine of one node."""

    def __init__(
        self,
        settings: Settings,
        nodes: DeviceNodes,
        log: FilteringBoundLogger,
        *,
        open_uevents: Callable[[], Source] | None = None,
    ) -> None:
        """Watch as ``settings`` say; nothing is read before ``run``.

        ``open_uevents`` is where changes are heard: the kernel's socket, unless a stand-in is given.
        """
        root = Path(settings.root)
        self._ports = PortStates(partial(read_port_states, root), log, poll_seconds=settings.port_poll_seconds)
        self.inventory = Inventory(
            root,
            nodes,
            ports=self._ports,
            understand=partial(
                discover,
                selectors=[one.pool.selector for one in pool_rules(settings)],
                topology=TopologySource(settings.virtual_topology),
            ),
            resync_seconds=settings.resync_seconds,
            debounce_seconds=settings.debounce_milliseconds / 1000,
            log=log,
        )
        self._uevents = Uevents(self.inventory.look_again, log, open_source=open_uevents)
        self._verbs = VerbsEvents(load_pyverbs, log, look_again=self._ports.ask_now) if settings.verbs else None

    async def run(self) -> Never:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._ports.run(), name="ports")
            tasks.create_task(self.inventory.run(), name="inventory")
            tasks.create_task(self._uevents.run(), name="uevents")
            if self._verbs is not None:
                tasks.create_task(self._verbs.run(), name="verbs")
                tasks.create_task(self._open_devices(self._verbs), name="devices of verbs")
        raise AssertionError("every task of the group runs for ever")

    @property
    def heard(self) -> int:
        """How many messages of the kernel were heard so far."""
        return self._uevents.counts["heard"]

    def sources(self) -> dict[str, str]:
        """Who tells of changes, and what keeps them from it."""
        up = "kernel messages are heard" if self._uevents.source_up.value else "kernel messages are not heard"
        told = {"uevents": up}
        if self._verbs is not None:
            told["verbs"] = self._verbs.problem.value or "the cards' own events are heard"
        return told

    async def _open_devices(self, verbs: VerbsEvents) -> Never:
        async for look in self.inventory.latest.changes():
            verbs.follow([hca.name for hca in look.machine.hcas] if look else ())
        raise AssertionError("a cell's changes have no end")
