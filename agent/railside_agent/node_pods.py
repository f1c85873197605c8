"""Watches the Pods of the own node. It must not decide what holds an HCA, nor change a pod."""

import asyncio
from typing import Never

from structlog.typing import FilteringBoundLogger

from railside_agent.pods import PodObject, Pods, pods
from railside_runtime.cell import Cell
from railside_runtime.reflector import Api, Pace, Reflector


class NodePods:
    """The pods of one node."""

    def __init__(self, api: Api, name: str, log: FilteringBoundLogger, pace: Pace | None = None) -> None:
        """Watch the pods that are bound to the node ``name``."""
        self.pods: Cell[Pods] = Cell(Pods())
        query = {"fieldSelector": f"spec.nodeName={name}"}
        self._objects = Reflector(api, "/api/v1/pods", query, PodObject, log=log, pace=pace)

    async def run(self) -> Never:
        """Keep the pods up to date until cancelled; the API server may be absent for as long as it likes."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._objects.run(), name="pod-watch")
            async for seen in self._objects.seen.changes():
                self.pods.set(
                    pods(
                        seen.objects.values(),
                        synced=seen.synced,
                        problem=seen.problem,
                        gone=seen.gone.values(),
                        before=self.pods.value,
                    )
                )
        raise AssertionError("a cell's changes have no end")
