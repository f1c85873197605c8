"""A node goes from another plugin of the same resource name to the agent and back, with pods running.

It answers for what the real kubelet makes of it. It must not test which HCAs new pods get.
"""

import asyncio
from collections.abc import Iterator

import pytest

from gpus_beside import plugin_folder
from harness import waiting
from harness.cluster import Cluster
from harness.kubectl import Kubectl
from harness.kubelet import NodeSettings
from harness.objects import Pod
from installed_agent import HARDWARE, InstalledAgent, installed_agent
from railside_proto import names
from railside_sim.gpu_plugin import GpuPlugin
from test_document import example_pod, main_container, remove, running, uverbs_inside
from test_mode_label import label

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def agent(cluster: Cluster) -> Iterator[InstalledAgent]:
    """The agent on a node that nobody has given it yet: it is there, and registers nothing."""
    with installed_agent(cluster, NodeSettings(numa=2, policy="best-effort", labels=HARDWARE)) as installed:
        yield installed


def other_plugin(agent: InstalledAgent) -> GpuPlugin:
    """A plain plugin on the node: an id for each HCA, called after its device node, which it hands over."""
    nodes = {hca["uverbs"]["name"]: hca["numaNode"] for hca in agent.status()["machine"]["hcas"]}
    plugin = GpuPlugin(plugin_folder(agent.node), nodes, resource=names.RESOURCE, socket="other.sock")
    plugin.nodes = {one: (f"{agent.node.folder}/machine/dev/infiniband/{one}",) for one in nodes}
    return plugin


async def test_a_node_is_taken_over_and_handed_back(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """Pods of both run on with their HCAs, and nobody else gets those, until each pod ends."""
    other = other_plugin(agent)
    await other.serve_and_register()
    try:
        await asyncio.to_thread(allocatable, agent, 8)
        theirs = await asyncio.to_thread(started, kubectl, "theirs")
        their_hca = await asyncio.to_thread(uverbs_inside, kubectl, "theirs")
        await other.end()
        await asyncio.to_thread(label, agent, "ib-shared")
        await asyncio.to_thread(allocatable, agent, 8)
        dealt = await asyncio.to_thread(seven_more, kubectl)
        ours = await asyncio.to_thread(started, kubectl, "ours")
        await asyncio.to_thread(agent.node.kubelet.restart)
        await asyncio.to_thread(agent.await_streams, 1)
        await asyncio.to_thread(label, agent, None)
        await asyncio.to_thread(allocatable, agent, 2)
        still = await asyncio.to_thread(kubectl.wait, Pod, "ours", lambda pod: pod.running)
        hcas = [await asyncio.to_thread(uverbs_inside, kubectl, name) for name in ("theirs", "ours")]
        await asyncio.to_thread(remove, kubectl, "ours")
        await asyncio.to_thread(waiting.until, lambda: not registered(agent), "the agent to let go", 60)
        await other.serve_and_register()
        await asyncio.to_thread(allocatable, agent, 8)
        after = await asyncio.to_thread(kubectl.wait, Pod, "theirs", lambda pod: pod.running)
    finally:
        await other.end()
        await asyncio.to_thread(remove, kubectl, "theirs", "ours")

    assert their_hca not in dealt
    assert len(dealt) == 7
    assert main_container(theirs).container_id == main_container(after).container_id
    assert main_container(ours).container_id == main_container(still).container_id
    assert hcas[0] == their_hca != hcas[1]


def started(kubectl: Kubectl, name: str) -> Pod:
    """A pod that runs."""
    kubectl.apply(example_pod(name))
    return kubectl.wait(Pod, name, lambda pod: pod.running)


def seven_more(kubectl: Kubectl) -> set[str]:
    """The HCAs of as many pods as the other plugin's pod leaves room for; they are gone by then."""
    pods = [f"new-{number}" for number in range(7)]
    with running(kubectl, *pods):
        return {uverbs_inside(kubectl, name) for name in pods}


def allocatable(agent: InstalledAgent, count: int) -> None:
    """Return when the node has ``count`` to give."""
    agent.await_allocatable(count, timeout_s=40)


def registered(agent: InstalledAgent) -> bool:
    """Whether the kubelet knows the agent's plugin."""
    return bool(agent.pool()["registration"]["registered"])
