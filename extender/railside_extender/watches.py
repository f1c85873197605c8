"""Follows nodes, records and pods at the API server, and shows each change to the cluster's state.

It must not decide anything; while the API server is away the state stays as it was seen last.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Never, TypeVar

from structlog.typing import FilteringBoundLogger

from railside_extender.cluster import Cluster
from railside_extender.objects import NodeObject, RecordObject, node_facts, read_record
from railside_extender.pod_facts import PodObject, pod_facts
from railside_proto.names import RECORDS
from railside_runtime.cell import Cell
from railside_runtime.reflector import Api, Pace, Reflector

T = TypeVar("T", NodeObject, RecordObject)


class Watches:
    """Keeps ``cluster`` as the API server shows it."""

    def __init__(
        self,
        api: Api,
        cluster: Cluster,
        *,
        clock: Callable[[], float],
        log: FilteringBoundLogger,
        pace: Pace | None = None,
    ) -> None:
        """Nothing is asked before ``run``."""
        self.moved: Cell[int] = Cell(0)
        """Another number whenever something changed."""
        self._cluster = cluster
        self._clock = clock
        self._names: dict[str, str] = {}
        self._nodes = Reflector(api, "/api/v1/nodes", {}, NodeObject, log=log, pace=pace, changed=self._see_nodes)
        self._records = Reflector(api, RECORDS, {}, RecordObject, log=log, pace=pace, changed=self._see_records)
        self._pods = Reflector(api, "/api/v1/pods", {}, PodObject, log=log, pace=pace, changed=self._see_pods)

    def not_ready(self) -> str:
        """What was never seen yet, in words; empty when all was."""
        seen = (("nodes", self._nodes.seen), ("records", self._records.seen), ("pods", self._pods.seen))
        missing = [name for name, cell in seen if not cell.value.synced]
        return f"{', '.join(missing)} of the cluster were not read yet" if missing else ""

    async def run(self) -> Never:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._nodes.run(), name="nodes")
            tasks.create_task(self._records.run(), name="records")
            tasks.create_task(self._pods.run(), name="pods")
        raise AssertionError("every task of the group runs for ever")

    def _see_nodes(self, changes: Mapping[str, NodeObject | None]) -> None:
        for name, node in self._by_name(changes):
            self._cluster.see_node(name, node_facts(node) if node else None)
        self._move()

    def _see_records(self, changes: Mapping[str, RecordObject | None]) -> None:
        for name, found in self._by_name(changes):
            self._cluster.see_record(name, read_record(found) if found else None, self._clock())
        self._move()

    def _see_pods(self, changes: Mapping[str, PodObject | None]) -> None:
        for uid, pod in changes.items():
            self._cluster.see_pod(uid, pod_facts(pod) if pod else None, self._clock())
        self._move()

    def _by_name(self, changes: Mapping[str, T | None]) -> Iterator[tuple[str, T | None]]:
        """What has gone first: another object of the same name may have come in its place."""
        for uid in [uid for uid, found in changes.items() if found is None]:
            name = self._names.pop(uid, None)
            if name is not None:
                yield name, None
        for uid, found in changes.items():
            if found is not None:
                self._names[uid] = found.metadata.name
                yield found.metadata.name, found

    def nudge(self) -> None:
        """Something changed that no watch tells of."""
        self._move()

    def _move(self) -> None:
        self.moved.set(self.moved.value + 1)
