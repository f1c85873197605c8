"""Watches the own node, for its label above all. It must not decide on the mode, nor change the node."""

import asyncio
from typing import Never

from structlog.typing import FilteringBoundLogger

from railside_agent.own_node import Node, NodeFacts, node_facts
from railside_runtime.cell import Cell
from railside_runtime.reflector import Api, Pace, Reflector


class NodeLabel:
    """What is known of one node."""

    def __init__(self, api: Api, name: str, log: FilteringBoundLogger, pace: Pace | None = None) -> None:
        """Watch the node ``name``."""
        self.facts: Cell[NodeFacts] = Cell(NodeFacts())
        self._name = name
        query = {"fieldSelector": f"metadata.name={name}"}
        self._nodes = Reflector(api, "/api/v1/nodes", query, Node, log=log, pace=pace)

    async def run(self) -> Never:
        """Keep the facts up to date until cancelled; the API server may be absent for as long as it likes."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._nodes.run(), name="node-watch")
            async for seen in self._nodes.seen.changes():
                if seen.synced or seen.problem is not None:
                    self.facts.set(
                        node_facts(seen.objects.values(), self._name, seen.problem, before=self.facts.value)
                    )
        raise AssertionError("a cell's changes have no end")
