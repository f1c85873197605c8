"""Restarts of the kubelet: who survives being admitted again, and what ends the kubelet itself."""

from collections.abc import Mapping

import pytest
from tests.unit.sim.conftest import GPU, HCA, Nodes, SimNode, eight

from railside_sim.ages import KUBELET_1_37
from railside_sim.device import KubeletCrashedError
from railside_sim.pod_spec import ContainerSpec, Pod
from railside_sim.pods import Failed, Pending, PodRequest, ResourceStatus, Running
from railside_sim.policies import Policy

NO_HEALTHY = "no healthy devices present; cannot allocate unhealthy devices"
NO_LONGER = "previously allocated devices are no longer healthy; cannot allocate unhealthy devices"


def failed(pod: str, error: str) -> Failed:
    message = f"Allocate failed due to {error} {HCA}, which is unexpected"
    return Failed(pod=pod, reason=f"UnexpectedAdmissionError: {message}")


def with_init(name: str) -> Pod:
    asks = {HCA: 1}
    return Pod(
        name=name,
        containers=(ContainerSpec(requests=asks),),
        init_containers=(ContainerSpec(name="before", requests=asks),),
    )


async def four_pods(node: SimNode) -> set[str]:
    """A plain pod, and the three kinds that a late or sick list kills; their ids."""
    held = set((await node.run(PodRequest(name="plain"))).seats)
    held.update((await node.run(with_init("init"))).seats)
    for name in ("restarted", "crashing"):
        held.update((await node.run(PodRequest(name=name))).seats)
    await node.kubelet.restart_container("restarted")
    await node.kubelet.crash_container("crashing")
    return held


async def restart(
    node: SimNode, ids: str, *sick: str, nodes: Mapping[str, int] | None = None, reboot: bool = False
) -> dict[str, Failed]:
    """A restart at which the plugin registers in time, with ``ids``."""
    await node.kubelet.stop()
    if reboot:
        node.kubelet.lose_containers()
    await node.kubelet.start()
    await node.end()
    await node.offer(ids, nodes=nodes, pre_start=True)
    if sick:
        await node.tell(ids, *sick)
    return await node.kubelet.readmit()


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
async def test_in_time_and_healthy_everybody_survives(nodes: Nodes, policy: Policy) -> None:
    """With all held ids Healthy in time, no pod is lost, whatever it went through (experiments 0.3)."""
    node = await nodes.make(policy)
    await node.offer(eight("h"))
    held = await four_pods(node)
    assert await restart(node, eight("h")) == {}
    assert isinstance(node.kubelet.pods["plain"], Running)
    assert isinstance(node.kubelet.pods["crashing"], Pending)
    assert not held & set((await node.run(PodRequest(name="late", count=1))).seats)


async def test_too_late_kills_all_but_the_plain(nodes: Nodes) -> None:
    """Pods with an init container, a restarted container or one in back-off are killed (experiments 0.3)."""
    node = await nodes.make()
    await node.offer(eight("h"))
    await four_pods(node)
    killed = await node.kubelet.restart()
    assert killed == {name: failed(name, NO_HEALTHY) for name in ("init", "restarted", "crashing")}
    assert isinstance(node.kubelet.pods["plain"], Running)
    assert node.kubelet.pods["init"] == killed["init"]


async def test_a_newer_kubelet_finds_the_restarted_container(nodes: Nodes) -> None:
    """In 1.37 a container that has been restarted, and runs, is no reason to kill its pod."""
    node = await nodes.make(age=KUBELET_1_37)
    await node.offer(eight("h"))
    await four_pods(node)
    assert set(await node.kubelet.restart()) == {"init", "crashing"}


async def test_unhealthy_kills_the_same(nodes: Nodes) -> None:
    """Held ids that are Unhealthy when pods are admitted again kill the same three (experiments 3)."""
    node = await nodes.make()
    await node.offer(eight("h"))
    held = await four_pods(node)
    killed = await restart(node, eight("h"), *sorted(held))
    assert killed == {name: failed(name, NO_LONGER) for name in ("init", "restarted", "crashing")}


async def test_a_missing_held_id_is_the_end(nodes: Nodes) -> None:
    """A held id that is not in a hinted list crashes the kubelet at each start (experiments 0.1)."""
    node = await nodes.make()
    await node.offer("a0 b0")
    (held,) = (await node.run(PodRequest(name="pod"))).seats
    (other,) = {"a0", "b0"} - {held}
    for _ in range(2):
        with pytest.raises(KubeletCrashedError, match=f"GetTopologyHints looks up {held} of {HCA}"):
            await restart(node, other)
        with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
            await node.list_pods()
    assert await restart(node, "a0 b0") == {}


@pytest.mark.parametrize(("policy", "ids"), [("none", "c0"), ("best-effort", "c-")])
async def test_where_a_missing_held_id_is_harmless(nodes: Nodes, policy: Policy, ids: str) -> None:
    """Neither with policy none nor with a bare list does the kubelet look the id up (experiments 0.1)."""
    node = await nodes.make(policy)
    await node.offer("a0" if policy == "none" else "a-")
    await node.run(PodRequest(name="pod"))
    assert await restart(node, ids) == {}
    assert len(node.holders()) == 1


@pytest.mark.parametrize(
    ("policy", "killed"), [("best-effort", False), ("restricted", True), ("single-numa-node", True)]
)
@pytest.mark.parametrize("before", ["a- b- c- d-", "a0 b0 c1 d1"], ids=["appears", "changes"])
async def test_topology_under_running_pods(nodes: Nodes, policy: Policy, before: str, *, killed: bool) -> None:
    """Nodes that appear or change under held ids kill the pod, unless best-effort (experiments 0.8)."""
    node = await nodes.make(policy)
    await node.offer(before)
    held = (await node.run(PodRequest(name="pod", count=2))).seats
    nodes_now = dict.fromkeys(before.split(), 0) | {held[1]: 1}
    assert bool(await restart(node, before, nodes=nodes_now)) == killed


async def test_a_restart_is_zero_of_zero_until_it_registers(nodes: Nodes) -> None:
    """Resources of the checkpoint are on the node with 0 of 0 until their plugins are back (facts: kubelet)."""
    node = await nodes.make()
    await node.offer("a0")
    await node.offer("g0 h0", GPU)
    await node.kubelet.restart()
    assert node.kubelet.node_status() == {HCA: ResourceStatus(), GPU: ResourceStatus()}


async def test_capacity_outlives_its_plugin_for_a_while(nodes: Nodes) -> None:
    """A plugin that went leaves its capacity for five minutes, and nothing after (facts: kubelet)."""
    node = await nodes.make()
    plugin = await node.offer("a0 b0")
    await plugin.end()
    await node.kubelet.until(lambda: node.kubelet.status_of().allocatable == 0)
    assert node.kubelet.status_of() == ResourceStatus(capacity=2)
    await node.kubelet.pass_grace()
    assert node.kubelet.node_status() == {}


async def test_starts_are_told_only_while_registered(nodes: Nodes) -> None:
    """Skipped after a restart until the plugin is back, and refused where it alone died (late-binding 5)."""
    node = await nodes.make()
    plugin = await node.offer("a0 b0", pre_start=True)
    await node.run(PodRequest(name="pod"))
    await plugin.end()
    await node.kubelet.until(lambda: node.kubelet.status_of().allocatable == 0)
    waiting = await node.kubelet.restart_container("pod")
    assert isinstance(waiting, Pending)
    assert waiting.reason == (
        "CreateContainerConfigError: device plugin PreStartContainer rpc failed with err:"
        " endpoint vke.volcengine.com-infiniband-rdma.sock has been stopped"
    )
    await node.offer("a0 b0", pre_start=True)
    assert isinstance(await node.kubelet.retry("pod"), Running)
    await node.run(PodRequest(name="plain"))
    await node.kubelet.restart()
    asked = list(node.plugins[HCA].asked)
    assert isinstance(await node.kubelet.restart_container("plain"), Running)
    assert node.plugins[HCA].asked == asked


async def test_a_reboot_starts_all_from_kept_answers(nodes: Nodes) -> None:
    """After a reboot init and main start with their old ids and no Allocate, and each start is told."""
    node = await nodes.make()
    await node.offer(eight("h"))
    before = await node.run(with_init("pod"))
    assert await restart(node, eight("h"), reboot=True) == {}
    assert node.kubelet.pods["pod"] == before
    assert [each.call for each in node.plugins[HCA].asked] == ["start", "start"]


async def test_a_reboot_without_the_plugin_fails_all(nodes: Nodes) -> None:
    """No container runs after a reboot, so that a plugin that comes late loses every pod (kubernetes 109595)."""
    node = await nodes.make()
    await node.offer(eight("h"))
    await node.run(PodRequest(name="plain"))
    assert await node.kubelet.reboot() == {"plain": failed("plain", NO_HEALTHY)}


async def test_a_pod_that_comes_first_waits_for_the_others(nodes: Nodes) -> None:
    """A pod that is admitted after a start comes after those of before, whose ids it does not get."""
    node = await nodes.make()
    await node.offer("a0 b0")
    held = (await node.run(PodRequest(name="one"))).seats
    await node.kubelet.stop()
    await node.kubelet.start()
    await node.end()
    await node.offer("a0 b0")
    assert (await node.run(PodRequest(name="two"))).seats != held


async def test_the_last_registration_dies_with_any_stream(nodes: Nodes) -> None:
    """When an earlier stream of a resource ends, the kubelet hangs up on whoever registered last."""
    node = await nodes.make()
    first = await node.offer("a0")
    await node.offer("a0", socket="another.sock")
    await first.end()
    await node.kubelet.until(lambda: node.kubelet.status_of() == ResourceStatus(capacity=1))
