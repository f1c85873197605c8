"""The agent put together: which parts there are, what each is given, and the tasks that run side by side.

It must hold no decision; it is the one place that knows all parts.
"""

import asyncio
from importlib.metadata import version
from pathlib import Path
from typing import Never

import msgspec
from structlog.typing import FilteringBoundLogger

from railside_agent.device_dirs import DeviceDirectories
from railside_agent.device_nodes import CharacterDevices, DeviceNodes
from railside_agent.inventory import Inventory
from railside_agent.plugin import DevicePlugin
from railside_agent.registration import Registrar
from railside_agent.seat_memory import SeatMemory
from railside_agent.seats import Offer, offer
from railside_agent.settings import Settings
from railside_agent.starts import ContainerStarts
from railside_agent.status import View, not_ready, nothing_offered, status
from railside_proto.machine import Machine
from railside_proto.pool import Pool
from railside_runtime.cell import Cell
from railside_runtime.probes import ProbeServer


class Agent:
    """One node's agent."""

    def __init__(self, settings: Settings, log: FilteringBoundLogger, nodes: DeviceNodes | None = None) -> None:
        """Put the parts together; nothing is read or served before ``run``.

        ``nodes`` is how device nodes are looked at and made: the kernel's, unless a stand-in is given.
        """
        root = Path(settings.root)
        nodes = nodes or CharacterDevices()
        self._log = log
        # Looked up once: it reads files, and a probe must not.
        self._version = version("railside")
        self._pool = Pool()
        self._memory = SeatMemory(root, self._pool, log)
        self._offer: Cell[Offer] = Cell(())
        self._inventory = Inventory(root, nodes, resync_seconds=settings.resync_seconds, log=log)
        self._starts = ContainerStarts(
            self._pool,
            inventory=self._inventory,
            offer=self._offer,
            directories=DeviceDirectories(root, nodes),
            host_root=settings.host_root,
            log=log,
        )
        self._plugin = DevicePlugin(self._offer, self._starts)
        self._registrar = Registrar(self._pool, self._plugin, Path(settings.kubelet_dir), log)
        self._probes = ProbeServer(
            settings.listen_host,
            settings.listen_port,
            not_ready=lambda: not_ready(self.view()),
            status=self._status,
        )

    async def run(self) -> Never:
        """Serve until cancelled. Raises an ExceptionGroup when a part breaks; a ListenError is a taken port."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._probes.run(), name="probes")
            tasks.create_task(self._inventory.run(), name="inventory")
            tasks.create_task(self._keep_offering(), name="offer")
            tasks.create_task(self._keep_registered(), name="registration")
        raise AssertionError("every task of the group runs for ever")

    def view(self) -> View:
        """The parts as they are now."""
        return View(
            version=self._version,
            pool=self._pool,
            machine=self._inventory.machine.value,
            offer=self._offer.value,
            registration=msgspec.structs.replace(self._registrar.state.value, streams=self._plugin.streams.value),
        )

    async def _keep_offering(self) -> Never:
        """Follow the machine: what was offered before stays, as pods may hold it."""
        before = await asyncio.to_thread(self._memory.recall)
        async for machine in self._inventory.machine.changes():
            if machine is not None:
                before = offer(machine, self._pool, before)
                await asyncio.to_thread(self._memory.remember, before)
                self._tell(machine, before)
                self._offer.set(before)
        raise AssertionError("a cell's changes have no end")

    async def _keep_registered(self) -> Never:
        """Register once there is something to offer; before that another plugin would be pushed aside."""
        await self._offer.until(bool)
        await self._registrar.run()

    def _tell(self, machine: Machine, seats: Offer) -> None:
        healthy = sum(seat.illness is None for seat in seats)
        self._log.info(
            "machine", hcas=len(machine.hcas), gpus=len(machine.gpus), seats=len(seats), healthy=healthy
        )
        for one in machine.excluded:
            self._log.info("device left out", device=one.name, reason=one.reason.code, why=one.reason.sentence)
        nothing = nothing_offered(machine)
        if nothing is not None:
            self._log.warning("nothing is offered", reason=nothing.code, why=nothing.sentence)

    async def _status(self) -> bytes:
        answer = status(self.view(), await self._starts.containers())
        return msgspec.json.format(msgspec.json.encode(answer)) + b"\n"
