"""The agent put together: which parts there are, what each is given, and the tasks that run side by side.

It must hold no decision; it is the one place that knows all parts.
"""

import asyncio
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Never

import msgspec
from structlog.typing import FilteringBoundLogger

from railside_agent.checkpoint_watch import CheckpointWatch
from railside_agent.device_dirs import DeviceDirectories
from railside_agent.device_nodes import CharacterDevices, DeviceNodes
from railside_agent.inventory import Inventory
from railside_agent.offering import Offering
from railside_agent.plugin import DevicePlugin
from railside_agent.port_states import PortStates
from railside_agent.registration import Registrar
from railside_agent.seat_memory import SeatMemory
from railside_agent.seats import Offer, has_own_seats
from railside_agent.settings import Settings
from railside_agent.starts import ContainerStarts
from railside_agent.status import View, not_ready, status
from railside_agent.sysfs import read_port_states
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
        self._offer: Cell[Offer] = Cell(())
        self._ports = PortStates(partial(read_port_states, root), log, poll_seconds=settings.port_poll_seconds)
        self._inventory = Inventory(
            root,
            nodes,
            ports=self._ports,
            resync_seconds=settings.resync_seconds,
            log=log,
            debounce_seconds=settings.debounce_milliseconds / 1000,
        )
        self._checkpoint = CheckpointWatch(Path(settings.kubelet_dir), log)
        self._starts = ContainerStarts(
            self._pool,
            inventory=self._inventory,
            offer=self._offer,
            directories=DeviceDirectories(root, nodes),
            root=root,
            host_root=settings.host_root,
            log=log,
        )
        self._offering = Offering(
            self._pool,
            inventory=self._inventory,
            checkpoint=self._checkpoint,
            starts=self._starts,
            memory=SeatMemory(root, self._pool, log),
            offer=self._offer,
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
            tasks.create_task(self._ports.run(), name="ports")
            tasks.create_task(self._inventory.run(), name="inventory")
            tasks.create_task(self._checkpoint.run(), name="checkpoint")
            tasks.create_task(self._offering.run(), name="offering")
            tasks.create_task(self._keep_registered(), name="registration")
        raise AssertionError("every task of the group runs for ever")

    def view(self) -> View:
        """The parts as they are now."""
        latest = self._inventory.latest.value
        return View(
            version=self._version,
            pool=self._pool,
            machine=latest.machine if latest else None,
            offer=self._offer.value,
            look_problem=self._inventory.problem.value,
            registration=msgspec.structs.replace(self._registrar.state.value, streams=self._plugin.streams.value),
        )

    async def _keep_registered(self) -> Never:
        """Register once there is something of our own to offer: before, another plugin would be pushed aside."""
        await self._offer.until(has_own_seats)
        await self._registrar.run()

    async def _status(self) -> bytes:
        answer = status(self.view(), await self._starts.containers())
        return msgspec.json.format(msgspec.json.encode(answer)) + b"\n"
