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
from railside_agent.cluster_view import ClusterView
from railside_agent.device_nodes import CharacterDevices, DeviceNodes
from railside_agent.discovery import discover
from railside_agent.inventory import Inventory
from railside_agent.outlook import Sight
from railside_agent.plans import plans, selectors
from railside_agent.pool_agent import PoolAgent
from railside_agent.port_states import PortStates
from railside_agent.settings import Settings
from railside_agent.status import View, not_ready, status
from railside_agent.sysfs import read_port_states
from railside_agent.teller import Teller
from railside_agent.tidings import of_machine
from railside_agent.uevents import Uevents
from railside_proto.machine import Machine
from railside_runtime.probes import ProbeServer


class Agent:
    """One node's agent."""

    def __init__(self, settings: Settings, log: FilteringBoundLogger, nodes: DeviceNodes | None = None) -> None:
        """Put the parts together; nothing is read or served before ``run``.

        ``nodes`` is how device nodes are looked at and made: the kernel's, unless a stand-in is given.
        """
        root = Path(settings.root)
        nodes = nodes or CharacterDevices()
        # Looked up once: it reads files, and a probe must not.
        self._version = version("railside")
        self._ports = PortStates(partial(read_port_states, root), log, poll_seconds=settings.port_poll_seconds)
        self._inventory = Inventory(
            root,
            nodes,
            ports=self._ports,
            understand=partial(discover, selectors=selectors(settings)),
            resync_seconds=settings.resync_seconds,
            debounce_seconds=settings.debounce_milliseconds / 1000,
            log=log,
        )
        self._uevents = Uevents(self._inventory.look_again, log)
        self._checkpoint = CheckpointWatch(Path(settings.kubelet_dir), log)
        self._cluster = ClusterView(settings.node_name, settings.kubeconfig, log)
        self._sight = Sight(
            root,
            nodes,
            inventory=self._inventory,
            checkpoint=self._checkpoint,
            node=self._cluster.node,
            pods=self._cluster.pods,
        )
        self._teller = Teller(
            log,
            node=settings.node_name,
            facts=self._cluster.node,
            pods=self._cluster.pods,
            say=self._cluster.say,
        )
        self._pools = [
            PoolAgent(plan, sight=self._sight, nodes=nodes, teller=self._teller, log=log)
            for plan in plans(settings)
        ]
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
            tasks.create_task(self._checkpoint.run(), name="checkpoint")
            tasks.create_task(self._ports.run(), name="ports")
            tasks.create_task(self._inventory.run(), name="inventory")
            tasks.create_task(self._uevents.run(), name="uevents")
            tasks.create_task(self._cluster.run(), name="cluster")
            tasks.create_task(self._tell_changes(), name="tidings")
            for pool in self._pools:
                tasks.create_task(pool.run(), name=f"pool {pool.name}")
        raise AssertionError("every task of the group runs for ever")

    def view(self) -> View:
        """The parts as they are now."""
        look = self._inventory.latest.value
        return View(
            version=self._version,
            pools=tuple(pool.view() for pool in self._pools),
            machine=look.machine if look else None,
            look_problem=self._inventory.problem.value,
            checkpoint_problem=self._checkpoint.problem.value or self._sight.complaint,
            node=self._cluster.node.value,
            pods=self._cluster.pods.value,
            sources={"uevents": self._uevents.source_up.value},
        )

    async def _tell_changes(self) -> Never:
        before: Machine | None = None
        async for look in self._inventory.latest.changes():
            if look is not None:
                self._teller.tell(of_machine(before, look.machine))
                before = look.machine
        raise AssertionError("a cell's changes have no end")

    async def _status(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(status(self.view()))) + b"\n"
