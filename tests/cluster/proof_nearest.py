"""How many GPUs get an HCA beside them, by who chooses it: chance, the agent when it is asked, and at each start.

It answers for the figures of docs/nearest-hca.md. Run it by its path, as it takes too long to be collected with
the tests: ``tests/cluster/run tests/cluster/proof_nearest.py``. It must not demand more than is promised.
"""

import asyncio
import datetime as dt
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
import pytest

from busy_node import BusyNode
from dealers import Agent, Dealer, PlainPlugin
from gpus_beside import GPU_CHOOSERS, gpus_beside, hca_nodes, machine, plugin_folder
from harness.cluster import Cluster
from harness.kubectl import Kubectl
from harness.node import ClusterNode
from harness.objects import Node
from installed_agent import DOCUMENT_NODE, REPOSITORY, LaidOutMachine, installed_agent, lay_out_machine
from railside_proto.names import GPU_RESOURCE, RESOURCE
from railside_sim.gpu_plugin import GpuPlugin
from traffic import ROOM

PAIRS: Final = 100
"""So many pairs an oracle must have been able to make, for each row of the table."""

CHANCE, ALLOCATE, START = "a plain plugin", "binding: allocate", "binding: start"
RESULT: Final = REPOSITORY / "build/nearest.json"


class Row(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What came of one chooser of HCAs beside one chooser of GPUs."""

    hcas: str
    gpus: str
    asked: int
    """GPUs of containers that asked for HCAs, too."""
    paired: int
    possible: int

    @property
    def text(self) -> str:
        shares = f"{self.paired / self.asked:.0%} | {self.possible} | {self.paired / self.possible:.1%}"
        return f"| {self.hcas} | {self.gpus} | {self.asked} | {self.paired} | {shares} |"


@pytest.fixture(scope="module")
def rows(tell: Callable[[str], None]) -> Iterator[list[Row]]:
    """The table, told and written when all is measured, or as much as was."""
    found: list[Row] = []
    yield found
    for row in found:
        tell(row.text)
    RESULT.parent.mkdir(exist_ok=True)
    today = dt.datetime.now(dt.UTC).date().isoformat()
    RESULT.write_bytes(msgspec.json.format(msgspec.json.encode({"on": today, "rows": found})))
    RESULT.with_suffix(".md").write_text("".join(f"{row.text}\n" for row in found), encoding="utf-8")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("gpus", GPU_CHOOSERS)
@pytest.mark.parametrize("hcas", [CHANCE, ALLOCATE, START])
async def test_who_chooses(
    cluster: Cluster, kubectl: Kubectl, rows: list[Row], hcas: str, gpus: str, seed: int
) -> None:
    """No HCA is in two hands, whoever chooses; chosen at each start, it is as near as an oracle would have it."""
    async with dealing(cluster, hcas, gpus) as (plugins, dealer):
        chance = random.Random(f"{seed} {hcas} {gpus}")  # noqa: S311 -- told, to be drawn again
        node = BusyNode(kubectl, plugins, dealer, chance)
        while node.count()["possible"] < PAIRS:
            await asyncio.to_thread(node.step)
        await asyncio.to_thread(node.clear)
    count = node.count()
    row = Row(hcas=hcas, gpus=gpus, asked=count["gpus"], paired=count["paired"], possible=count["possible"])
    rows.append(row)

    assert node.problems == []
    assert hcas != START or node.short == []


@asynccontextmanager
async def dealing(cluster: Cluster, hcas: str, gpus: str) -> AsyncIterator[tuple[Path, Dealer]]:
    """A node with GPUs and HCAs to give: the kubelet's folder of plugins, and who gives HCAs."""
    # Nothing is served yet that the wait for a node could hold up.
    if hcas == CHANCE:
        with cluster.node(DOCUMENT_NODE) as node:
            laid_out = lay_out_machine(node)
            async with plain_plugin(node, laid_out) as dealer, gpus_beside(node, gpus):
                await asyncio.to_thread(await_all, cluster, node)
                yield plugin_folder(node), dealer
    else:
        binding = hcas.rpartition(" ")[2]
        with installed_agent(cluster, DOCUMENT_NODE, RAILSIDE_AGENT_BINDING=binding) as agent:
            async with gpus_beside(agent.node, gpus):
                await asyncio.to_thread(await_all, cluster, agent.node)
                yield plugin_folder(agent.node), Agent(agent, forgets=hcas == START)


@asynccontextmanager
async def plain_plugin(node: ClusterNode, laid_out: LaidOutMachine) -> AsyncIterator[PlainPlugin]:
    """An id for each HCA, with its NUMA node and no preference, as a plugin that knows no GPUs."""
    ids = hca_nodes(machine())
    plugin = GpuPlugin(plugin_folder(node), ids, resource=RESOURCE, pre_start=True)
    plugin.variable = ""
    plugin.nodes = {name: (f"{laid_out.tree}/dev/infiniband/{name}",) for name in ids}
    await plugin.serve_and_register()
    try:
        yield PlainPlugin(plugin, laid_out.numbers)
    finally:
        await plugin.end()


def await_all(cluster: Cluster, node: ClusterNode) -> None:
    """Return when the node has all GPUs and HCAs to give."""
    cluster.kubectl.wait(
        Node,
        node.name,
        lambda seen: {seen.status.allocatable.get(one) for one in (GPU_RESOURCE, RESOURCE)} == {str(ROOM)},
    )
