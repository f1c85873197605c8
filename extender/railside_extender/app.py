"""The extender put together: which parts there are, what each is given, and the tasks that run side by side.

It must hold no decision; it is the one place that knows all parts.
"""

import asyncio
import time
from typing import Final, Never

import msgspec
from structlog.typing import FilteringBoundLogger

from railside_extender.binder import Binder
from railside_extender.cluster import Cluster
from railside_extender.decider import Decider, Policy
from railside_extender.server import ExtenderServer
from railside_extender.settings import Settings
from railside_extender.telemetry import Telemetry
from railside_extender.waker import Waker
from railside_extender.watches import Watches
from railside_runtime.kube import KubeApi
from railside_runtime.probes import NotReady, ProbeServer

SWEEP_SECONDS: Final = 10.0
"""How often holds that nobody ended are looked for."""


class Extender:
    """One extender, beside one scheduler."""

    def __init__(self, settings: Settings, log: FilteringBoundLogger) -> None:
        """Put the parts together; nothing is asked or served before ``run``."""
        self._settings = settings
        self._api = KubeApi(settings.kubeconfig, agent="railside-extender")
        self._cluster = Cluster(settings.resource)
        self._watches = Watches(self._api, self._cluster, clock=time.monotonic, log=log)
        decider = Decider(self._cluster, _policy(settings))
        telemetry = Telemetry(self._cluster, ready=lambda: not self._not_ready())
        self._server = ExtenderServer(
            self._cluster,
            decider,
            telemetry,
            moved=self._watches.moved,
            not_ready=self._watches.not_ready,
            clock=time.monotonic,
            binder=self._binder(decider) if settings.bind else None,
        )
        self._waker = Waker(self._api, self._watches.moved, lambda: decider.wake(time.monotonic()), log)
        self._probes = ProbeServer(
            settings.probe_host,
            settings.probe_port,
            not_ready=self._not_ready,
            status=self._status,
            complain=lambda problem: log.error("no probe is answered", detail=problem),
            settings="probeHost or probePort",
            metrics=telemetry.text,
        )

    async def run(self) -> Never:
        """Serve until cancelled. Raises an ExceptionGroup when a part breaks."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watches.run(), name="watches")
                tasks.create_task(self._probes.run(), name="probes")
                tasks.create_task(self._serve(), name="verbs")
                tasks.create_task(self._waker.run(), name="waker")
                tasks.create_task(self._sweep(), name="sweep")
        finally:
            await self._api.close()
        raise AssertionError("every task of the group runs for ever")

    def _binder(self, decider: Decider) -> Binder:
        return Binder(self._api, lambda uid, node: decider.obstacle(uid, node, time.monotonic()))

    async def _serve(self) -> Never:
        await self._server.run(self._settings.listen_host, self._settings.listen_port)

    async def _sweep(self) -> Never:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._cluster.expire(time.monotonic(), self._settings.hold_seconds)
            self._watches.nudge()

    def _not_ready(self) -> NotReady:
        problem = self._watches.not_ready()
        return (problem,) if problem else ()

    async def _status(self) -> bytes:
        """What is held for whom; everything else is at the API server."""
        holds = {uid: sorted(hold.nodes) for uid, hold in self._cluster.holds.items()}
        records = sorted(self._cluster.records)
        return msgspec.json.encode({"notReady": self._not_ready(), "holds": holds, "records": records}) + b"\n"


def _policy(settings: Settings) -> Policy:
    return Policy(
        resource=settings.resource,
        most_nodes=settings.most_nodes,
        default_locality=settings.default_locality,
        conflicting=frozenset(settings.conflicting_resources),
    )
