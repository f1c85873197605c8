"""What the API server tells of this node and its pods, and what it is told. It must not decide anything.

Nothing waits for it: registration, starts and health go on without an API server, on what was seen last.
"""

import asyncio
from typing import Never

from structlog.typing import FilteringBoundLogger

from railside_agent.event_book import Saying
from railside_agent.events import EventTeller
from railside_agent.node_label import NodeLabel
from railside_agent.node_pods import NodePods
from railside_agent.own_node import NodeFacts
from railside_agent.pods import Pods
from railside_proto.names import AGENT_COMPONENT
from railside_runtime.cell import Cell
from railside_runtime.kube import KubeApi


class ClusterView:
    """The API server as this node needs it; without a node name nobody is asked or told."""

    def __init__(self, node_name: str, kubeconfig: str, log: FilteringBoundLogger) -> None:
        """Speak as ``kubeconfig`` says, or as the pod's service account, of the node ``node_name``."""
        self.api = KubeApi(kubeconfig, agent=AGENT_COMPONENT)
        self._is_used = bool(node_name)
        self._label = NodeLabel(self.api, node_name, log)
        self._pods = NodePods(self.api, node_name, log)
        self._events = EventTeller(self.api, node_name, log)

    @property
    def node(self) -> Cell[NodeFacts]:
        """The own node."""
        return self._label.facts

    @property
    def pods(self) -> Cell[Pods]:
        """Its pods."""
        return self._pods.pods

    async def heard(self) -> None:
        """Return when the pods were read once; at once where nobody is asked."""
        if self._is_used:
            await self.pods.until(lambda pods: pods.synced)

    def say(self, saying: Saying) -> None:
        """Have an Event told, if there is anybody to tell."""
        if self._is_used:
            self._events.tell(saying)

    async def run(self) -> Never:
        """Watch and tell until cancelled."""
        try:
            await (self._watch() if self._is_used else asyncio.Event().wait())
        finally:
            await self.api.close()
        raise AssertionError("watching has no end")

    async def _watch(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._label.run(), name="node")
            tasks.create_task(self._pods.run(), name="pods")
            tasks.create_task(self._events.run(), name="events")
