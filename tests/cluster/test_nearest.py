"""The nearest HCA, with the real kubelet, as pods of many shapes come and go by chance.

It answers for each start being as good as an oracle's that knows the GPUs, and for HCAs that nobody else holds.
The GPUs and HCAs are stand-ins; how far one is from the other is the machine's text. It must not test what
becomes of HCAs that fall ill.
"""

import asyncio
import random
from collections.abc import Iterator

import pytest

from busy_node import BusyNode
from dealers import Agent
from gpus_beside import GPU_CHOOSERS, gpu_nodes, gpus_beside, machine, partners, plugin_folder
from harness import waiting
from harness.cluster import Cluster
from harness.kubectl import Kubectl
from harness.objects import Node, Pod
from installed_agent import InstalledAgent, document_agent
from looking_inside import inside
from nearness import paired, possible
from railside_proto.names import GPU_RESOURCE
from test_document import remove
from traffic import ROOM, Ask, Shape, manifest

STEPS = 6


@pytest.fixture(scope="module")
def agent(cluster: Cluster) -> Iterator[InstalledAgent]:
    """The agent on a node of the document."""
    with document_agent(cluster) as installed:
        yield installed


@pytest.mark.timeout(600)
@pytest.mark.parametrize("chooser", GPU_CHOOSERS)
async def test_every_start_is_as_near_as_can_be(
    agent: InstalledAgent, kubectl: Kubectl, chooser: str, seed: int
) -> None:
    """As many GPUs as an oracle could pair at that start have an HCA at PIX or PXB, whoever chose them (B-DP-48).

    No HCA is in two hands, and inside each container is what the books say, and no other (B-DP-50).
    """
    chance = random.Random(f"{seed} {chooser}")  # noqa: S311 -- told, to be drawn again
    node = BusyNode(kubectl, plugin_folder(agent.node), Agent(agent), chance)
    async with gpus_beside(agent.node, chooser):
        await asyncio.to_thread(await_gpus, agent, ROOM)
        try:
            for _ in range(STEPS):
                await asyncio.to_thread(node.step)
        finally:
            await asyncio.to_thread(node.clear)

    assert node.problems == []
    assert node.short == []
    assert node.count()["paired"] > 0


def await_gpus(agent: InstalledAgent, count: int) -> None:
    """Return when the node has ``count`` to give."""
    offered = {GPU_RESOURCE: str(count)}.items()
    kubectl = agent.cluster.kubectl
    kubectl.wait(Node, agent.node.name, lambda node: offered <= node.status.allocatable.items())


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("taken", "told"),
    [
        (4, "is served at SYS; this node has an HCA at PIX that is on another NUMA node"),
        (3, "is served at NODE; this node has an HCA at PIX that is in other hands"),
    ],
)
async def test_what_comes_out_worse_is_told(
    agent: InstalledAgent, kubectl: Kubectl, taken: int, told: str
) -> None:
    """Where others hold what is near a pod runs with what there is, and an Event on it says what stood in the way.

    All HCAs of its GPU's NUMA node are in others' hands, or its GPU's own is.
    """
    taker, pod = f"takes-{taken}", f"beside-{taken}"
    async with gpus_beside(agent.node) as plugin:
        try:
            await asyncio.to_thread(runs, kubectl, taker, Shape(main=(Ask(0, taken),)))
            held = await asyncio.to_thread(inside, kubectl, taker, "main-1")
            # The only GPU left is one whose own HCA is held.
            gpu = next(gpu for gpu, near in partners(machine()).items() if near & held.nodes.keys())
            await plugin.tell({gpu: gpu_nodes(machine())[gpu]})
            await asyncio.to_thread(await_gpus, agent, 1)
            await asyncio.to_thread(runs, kubectl, pod, Shape(main=(Ask(1, 1),)))
            said = await asyncio.to_thread(message, kubectl, pod, "FartherThanNeeded")
        finally:
            await asyncio.to_thread(remove, kubectl, taker, pod)

    assert told in said


def runs(kubectl: Kubectl, name: str, shape: Shape) -> None:
    kubectl.apply(manifest(name, shape))
    kubectl.wait(Pod, name, lambda pod: pod.running)


def message(kubectl: Kubectl, pod: str, reason: str) -> str:
    """What the Event of that reason says, as soon as there is one."""

    def look() -> str | None:
        events = kubectl.get("events", "--field-selector", f"involvedObject.name={pod},reason={reason}")
        return next((event["message"] for event in events["items"]), None)

    return waiting.until_value(look, f"an Event {reason} on {pod}")


PARTNERS = {"a": frozenset({"1"}), "b": frozenset({"2"}), "c": frozenset({"1", "2"}), "d": frozenset()}


@pytest.mark.parametrize(
    ("gpus", "hcas", "count"),
    [
        ("ab", "12", 2),
        ("ac", "1", 1),
        ("abc", "12", 2),
        ("ca", "12", 2),
        ("d", "12", 0),
        ("a", "2", 0),
        ("", "1", 0),
    ],
)
def test_an_hca_is_counted_for_one_gpu(gpus: str, hcas: str, count: int) -> None:
    """The oracle counts the most pairs that there can be at once."""
    assert paired(list(gpus), list(hcas), PARTNERS) == count


@pytest.mark.parametrize(
    ("gpus", "seats", "free", "count"),
    [
        ("ab", {0: 1}, {0: "12"}, 1),
        ("ab", {0: 2}, {0: "123"}, 2),
        ("ab", {0: 1, 1: 1}, {0: "13", 1: "24"}, 2),
        ("ab", {1: 2}, {1: "34"}, 0),
        ("a", {0: 1, 1: 1}, {0: "1", 1: ""}, 0),
    ],
)
def test_the_oracle_takes_what_is_free_where_the_seats_are(
    gpus: str, seats: dict[int, int], free: dict[int, str], count: int
) -> None:
    """The oracle is bound to the NUMA nodes that the kubelet chose, and to what nobody holds."""
    assert possible(list(gpus), seats, free, PARTNERS) == count
