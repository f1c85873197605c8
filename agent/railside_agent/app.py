"""The agent put together: which parts there are, what each is given, and the tasks that run side by side.

It must hold no decision; it is the one place that knows all parts.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Never

import msgspec
from structlog.typing import FilteringBoundLogger

from railside_agent.alone import OnlyAgent
from railside_agent.checkpoint_watch import CheckpointWatch
from railside_agent.cluster_view import ClusterView
from railside_agent.device_nodes import CharacterDevices, DeviceNodes
from railside_agent.flight_log import Began
from railside_agent.kubelet_client import KubeletClient
from railside_agent.kubelet_config import KubeletConfig
from railside_agent.machine_watch import MachineWatch
from railside_agent.node_record import NodeRecord
from railside_agent.plans import plans
from railside_agent.podresources import PodResources
from railside_agent.pool_agent import PoolAgent
from railside_agent.pool_rules import pool_rules
from railside_agent.recorder import Recorder
from railside_agent.settings import Settings
from railside_agent.sight import Sight
from railside_agent.status import kubelet_lacks, not_ready, status
from railside_agent.teller import Teller
from railside_agent.tidings import of_lacks, of_machine
from railside_agent.uevents import Source
from railside_agent.view import View
from railside_agent.virtual_topology import TopologySource
from railside_proto.machine import Machine
from railside_proto.reasons import Reason
from railside_runtime.cell import Cell, until_any_changes
from railside_runtime.probes import ProbeServer

FLUSH_SECONDS: Final = 0.3
"""How long a disk may hold up the agent's end."""


class Agent:
    """One node's agent."""

    def __init__(
        self,
        settings: Settings,
        log: FilteringBoundLogger,
        nodes: DeviceNodes | None = None,
        *,
        open_uevents: Callable[[], Source] | None = None,
    ) -> None:
        """Put the parts together; nothing is read or served before ``run``.

        ``nodes`` is how device nodes are looked at and made, ``open_uevents`` where changes are heard: the
        kernel's, unless a stand-in is given.
        """
        self._log = log
        root, kubelet_dir = Path(settings.root), Path(settings.kubelet_dir)
        nodes = nodes or CharacterDevices()
        # Looked up once: it reads files, and a probe must not.
        self._version = version("railside")
        self._only = OnlyAgent(root, log)
        self._watch = MachineWatch(settings, nodes, log, open_uevents=open_uevents)
        self._checkpoint = CheckpointWatch(kubelet_dir, log)
        self._cluster = ClusterView(settings.node_name, settings.kubeconfig, log)
        self._holdings = PodResources(
            kubelet_dir, log, busy=self._is_busy, pause_seconds=settings.cross_check_seconds
        )
        self._sight = Sight(
            root,
            nodes,
            inventory=self._watch.inventory,
            checkpoint=self._checkpoint,
            node=self._cluster.node,
            pods=self._cluster.pods,
            holdings=self._holdings.latest,
        )
        self._sight.pods_heard = self._cluster.heard
        self._kubelet = KubeletConfig(self._cluster.node, KubeletClient(settings.kubelet_ca), log)
        self._sight.kubelet = self._kubelet.facts
        self._sight.kubelet_heard = self._kubelet.heard if settings.node_name else self._sight.kubelet_heard
        self._teller = Teller(log, node=settings.node_name, pods=self._cluster.pods, say=self._cluster.say)
        self._recorder = _recorder(settings, self._version, log)
        self._pools = [
            PoolAgent(plan, sight=self._sight, nodes=nodes, teller=self._teller, recorder=self._recorder, log=log)
            for plan in plans(settings)
        ]
        self._record = NodeRecord(
            settings,
            self._cluster.api,
            sight=self._sight,
            holdings=self._holdings,
            view=self.view,
            sources=[cell for pool in self._pools for cell in pool.sources],
            log=log,
        )
        self._probes = ProbeServer(
            settings.listen_host,
            settings.listen_port,
            not_ready=lambda: not_ready(self.view()),
            status=self._status,
            complain=lambda problem: log.error("no probe is answered", detail=problem),
        )

    async def run(self) -> Never:
        """Serve until cancelled. Raises an ExceptionGroup when a part breaks, or another agent is there."""
        try:
            await self._serve()
        finally:
            self._only.give_up()
            # What was decided last is what one will want to know.
            await asyncio.to_thread(self._recorder.flush, FLUSH_SECONDS)
        raise AssertionError("every task of the group runs for ever")

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._probes.run(), name="probes")
            await self._only.until_alone()
            tasks.create_task(self._only.stay(), name="lock")
            tasks.create_task(self._checkpoint.run(), name="checkpoint")
            tasks.create_task(self._watch.run(), name="machine")
            tasks.create_task(self._cluster.run(), name="cluster")
            tasks.create_task(self._holdings.run(), name="pod resources")
            tasks.create_task(self._kubelet.run(), name="kubelet's configuration")
            tasks.create_task(self._record.run(), name="record")
            tasks.create_task(self._tell_changes(), name="tidings")
            tasks.create_task(self._cross_check(), name="cross-check")
            tasks.create_task(self._tell_nonsense(), name="nonsense")
            tasks.create_task(self._tell_lacks(), name="lacks")
            for pool in self._pools:
                tasks.create_task(pool.run(), name=f"pool {pool.name}")
                tasks.create_task(self._follow_kubelet(pool), name=f"kubelet of {pool.name}")

    def view(self) -> View:
        """The parts as they are now."""
        look = self._watch.inventory.latest.value
        return View(
            version=self._version,
            pools=tuple(pool.view() for pool in self._pools),
            machine=look.machine if look else None,
            look_problem=self._watch.inventory.problem.value,
            checkpoint_problem=self._checkpoint.problem.value or self._sight.complaint,
            node=self._cluster.node.value,
            pods=self._cluster.pods.value,
            sources=self._watch.sources(),
            holdings=self._holdings.latest.value,
            lacks=self._holdings.lacks.value,
            kubelet=self._kubelet.facts.value,
            publication=self._record.publication,
        )

    def _is_busy(self) -> bool:
        return any(pool.busy for pool in self._pools)

    async def _cross_check(self) -> Never:
        async for said in self._holdings.latest.changes():
            _, checkpoint = self._sight.holders()
            if said is not None and checkpoint is not None:
                self._teller.tell(one for pool in self._pools for one in pool.cross_checked(said, checkpoint))
        raise AssertionError("a cell's changes have no end")

    async def _tell_nonsense(self) -> Never:
        """Say so when the kubelet's checkpoint cannot be understood; nothing else shows that it is passed over."""
        before: str | None = None
        async for _ in self._checkpoint.latest.changes():
            complaint = self._sight.complaint
            if complaint is not None and complaint != before:
                self._log.warning("the kubelet's checkpoint is passed over", detail=complaint)
            before = complaint
        raise AssertionError("a cell's changes have no end")

    async def _tell_lacks(self) -> Never:
        before: tuple[Reason, ...] = ()
        cells: list[Cell[Any]] = [self._holdings.lacks, self._kubelet.facts, *(pool.lacks for pool in self._pools)]
        while True:
            seen = [(cell, cell.value) for cell in cells]
            lacks = kubelet_lacks(self.view())
            self._teller.tell(of_lacks(before, lacks))
            before = lacks
            await until_any_changes(seen)

    async def _follow_kubelet(self, pool: PoolAgent) -> Never:
        """Each run of the kubelet opens the list anew, and may be configured otherwise than the one before."""
        async for opened in pool.heard.changes():
            if opened is not None:
                self._kubelet.ask_again()
        raise AssertionError("a cell's changes have no end")

    async def _tell_changes(self) -> Never:
        before: Machine | None = None
        heard = 0
        async for look in self._watch.inventory.latest.changes():
            if look is not None:
                if self._watch.heard > heard:
                    self._recorder.note("kernel messages", heard=self._watch.heard - heard)
                    heard = self._watch.heard
                self._teller.tell(of_machine(before, look.machine))
                before = look.machine
        raise AssertionError("a cell's changes have no end")

    async def _status(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(status(self.view()))) + b"\n"


def _recorder(settings: Settings, version: str, log: FilteringBoundLogger) -> Recorder:
    return Recorder(
        Path(settings.root),
        bytes_at_most=settings.recorder_megabytes << 20,
        began=partial(_began, version, settings),
        log=log,
    )


def _began(version: str, settings: Settings, at: str) -> Began:
    return Began(
        version=version,
        topology=TopologySource(settings.virtual_topology),
        pools=tuple(pool_rules(settings)),
        at=at,
    )
