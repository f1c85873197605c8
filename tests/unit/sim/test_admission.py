"""Pods of every shape before stand-in plugins, under each policy: what the real kubelet deals and refuses."""

import asyncio
from collections.abc import Iterable

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from tests.unit.sim.conftest import GPU, HCA, Gate, Nodes, SimNode, eight, first_of

from railside_sim.chance import Turn
from railside_sim.device import KubeletCrashedError
from railside_sim.gpu_plugin import Asked
from railside_sim.pod_spec import ContainerSpec, Pod
from railside_sim.pods import Failed, PodRequest
from railside_sim.policies import Policy
from railside_sim.topology_manager import Scope

HINTED: tuple[Policy, ...] = ("best-effort", "restricted", "single-numa-node")
TOPOLOGY = "TopologyAffinityError: Resources cannot be allocated with Topology locality"


def asks(name: str = "main", hca: int = 0, gpu: int = 0, *, stays: bool = False) -> ContainerSpec:
    requests = {resource: count for resource, count in ((HCA, hca), (GPU, gpu)) if count}
    return ContainerSpec(name=name, requests=requests, restartable=stays)


def pod(*containers: ContainerSpec, name: str = "pod", init: tuple[ContainerSpec, ...] = ()) -> Pod:
    return Pod(name=name, containers=containers, init_containers=init)


def zones(ids: tuple[str, ...]) -> set[str]:
    return {one[-1] for one in ids}


def of(asked: list[Asked], call: str) -> list[Asked]:
    return [each for each in asked if each.call == call]


@pytest.mark.parametrize(
    ("policy", "offered_of_eight"),
    [
        pytest.param("best-effort", [4, 4, 4, 0, 8, 8, 8, 0], id="best-effort"),
        pytest.param("none", [8] * 8, id="none"),
    ],
)
async def test_when_a_plugin_is_asked_for_its_preference(
    nodes: Nodes, policy: Policy, offered_of_eight: list[int]
) -> None:
    """By policy and count, GetPreferredAllocation gets one node's ids, all, or is not called (experiments 7)."""
    node = await nodes.make(policy)
    plugin = await node.offer(eight("h"), preference=first_of(8))
    offered = []
    for count in range(1, 9):
        plugin.asked.clear()
        await node.run(PodRequest(name="pod", count=count))
        preferred = of(plugin.asked, "preferred")
        assert [each.must_include for each in preferred] in ([], [()])
        assert [each.size for each in preferred] in ([], [count])
        offered.append(sum(len(each.ids) for each in preferred))
        await node.kubelet.remove("pod")
    assert offered == offered_of_eight


async def test_a_node_with_too_few_left_is_not_offered(nodes: Nodes) -> None:
    """With one id left on node 0, two are chosen out of node 1's four (experiments 7)."""
    node = await nodes.make()
    plugin = await node.offer(eight("h"), preference=first_of(8))
    await node.run(PodRequest(name="three", count=3))
    plugin.asked.clear()
    assert zones((await node.run(PodRequest(name="two", count=2))).seats) == {"1"}
    assert [len(each.ids) for each in of(plugin.asked, "preferred")] == [4]


async def test_without_a_preference_ids_are_random_on_the_first_node(nodes: Nodes) -> None:
    """A plugin without GetPreferredAllocation sees any id of node 0 dealt, and never another (experiments 8)."""
    node = await nodes.make()
    await node.offer(eight("h"))
    seen: set[str] = set()
    for _ in range(20):
        seen.update((await node.run(PodRequest(name="pod"))).seats)
        await node.kubelet.remove("pod")
    assert len(seen) > 1
    assert zones(tuple(seen)) == {"0"}


class Backwards:
    """A chance that comes to the last first."""

    def order(self, items: Iterable[str], turn: Turn) -> list[str]:
        assert turn.pod == "pod"
        return sorted(items, reverse=True)


async def test_chance_decides_where_there_is_a_choice_and_nowhere_else(nodes: Nodes) -> None:
    """With a chance of one's own the last id of node 0 is dealt, and never one of node 1 that comes before it."""
    node = await nodes.make(chance=Backwards())
    await node.offer("a0 b0 c1")
    assert (await node.run(PodRequest(name="pod"))).seats == ("b0",)


async def test_an_id_of_two_nodes_is_near_either(nodes: Nodes) -> None:
    """Three ids are on node 1, of which one is on node 0 too; all three on one node are no problem."""
    node = await nodes.make("single-numa-node")
    await node.offer("a0 b1 c1", nodes={"a0": (0, 1)})
    assert len((await node.run(PodRequest(name="pod", count=3))).seats) == 3


async def test_bare_ids_are_all_equal(nodes: Nodes) -> None:
    """Without TopologyInfo even single-numa-node admits any number, and the plugin is offered all ids."""
    node = await nodes.make("single-numa-node")
    plugin = await node.offer("a- b- c- d-", preference=first_of(4))
    await node.run(PodRequest(name="pod", count=3))
    assert [len(each.ids) for each in of(plugin.asked, "preferred")] == [4]


@pytest.mark.parametrize(("policy", "admitted"), [("best-effort", True), ("restricted", False)])
@pytest.mark.parametrize("ids", ["a5 b5", "a- b0"], ids=["unknown-node", "bare-beside-hinted"])
async def test_ids_that_count_in_no_mask(nodes: Nodes, policy: Policy, ids: str, *, admitted: bool) -> None:
    """An unknown node or a bare id beside hinted ones has no hint: best-effort alone admits (facts: kubelet)."""
    node = await nodes.make(policy)
    await node.offer(ids)
    outcome = await node.kubelet.admit(PodRequest(name="pod", count=2))
    assert (outcome == Failed(pod="pod", reason=TOPOLOGY)) == (not admitted)


@pytest.mark.parametrize(
    ("policy", "scope", "containers", "failed"),
    [
        pytest.param("best-effort", "container", [(1, 8)], False, id="best-effort admits all"),
        pytest.param("restricted", "container", [(8, 8)], False, id="8+8 are of one width"),
        pytest.param("restricted", "container", [(1, 8)], True, id="1+8 are not"),
        pytest.param("restricted", "container", [(1, 0), (0, 8)], False, id="each container for itself"),
        pytest.param("restricted", "pod", [(1, 0), (0, 8)], True, id="the whole pod at once"),
        pytest.param("single-numa-node", "container", [(4, 4)], False, id="one node has them"),
        pytest.param("single-numa-node", "container", [(5, 0)], True, id="no node has five"),
        pytest.param("single-numa-node", "container", [(4, 0), (4, 0)], False, id="one node each"),
        pytest.param("single-numa-node", "pod", [(4, 0), (4, 0)], True, id="no node has both"),
        pytest.param("single-numa-node", "pod", [(2, 2), (2, 2)], False, id="one node for both"),
    ],
)
async def test_shapes_by_policy_and_scope(
    nodes: Nodes, policy: Policy, scope: Scope, containers: list[tuple[int, int]], *, failed: bool
) -> None:
    """GPUs beside HCAs, four of each on a node, in one container or in two (facts: extender 3)."""
    node = await nodes.make(policy, scope)
    await node.offer(eight("h"))
    await node.offer(eight("g"), GPU)
    asked = pod(*(asks(f"c{number}", hca, gpu) for number, (hca, gpu) in enumerate(containers)))
    outcome = await node.kubelet.admit(asked)
    assert (outcome == Failed(pod="pod", reason=TOPOLOGY)) == failed


async def test_gpus_and_hcas_meet_on_one_node(nodes: Nodes) -> None:
    """Where node 0 has no room for the GPUs, the HCAs go with them to node 1, under every policy with hints."""
    for policy in HINTED:
        node = await nodes.make(policy)
        await node.offer(eight("h"))
        await node.offer(eight("g"), GPU)
        await node.run(pod(asks(gpu=2), name="first"))
        found = await node.run(pod(asks(hca=3, gpu=3), name="second"))
        assert (zones(found.ids(HCA)), zones(found.ids(GPU))) == ({"1"}, {"1"})
        for plugin in node.plugins.values():
            await plugin.end()
        await node.kubelet.stop()


async def test_widths_count_what_is_unhealthy(nodes: Nodes) -> None:
    """Restricted with three sound of four a node, four asked: one node would do by the list, so two never do."""
    node = await nodes.make("restricted")
    await node.offer(eight("h"))
    await node.tell(eight("h"), "h00", "h41")
    assert await node.kubelet.admit(PodRequest(name="pod", count=4)) == Failed(pod="pod", reason=TOPOLOGY)
    listed = " ".join(one for one in eight("h").split() if one not in {"h00", "h41"})
    await node.tell(listed)
    assert len((await node.run(PodRequest(name="pod", count=4))).seats) == 4


@pytest.mark.parametrize("scope", ["container", "pod"])
async def test_an_init_container_hands_its_ids_on(nodes: Nodes, scope: Scope) -> None:
    """The main container gets the same ids by an Allocate of its own, more of the same node (experiments 6)."""
    node = await nodes.make(scope=scope)
    plugin = await node.offer(eight("h"), pre_start=True)
    await node.run(PodRequest(name="other"))
    plugin.asked.clear()
    found = await node.run(pod(asks(hca=3), init=(asks("before", hca=2),)))
    (before,), (main,) = found.init, found.containers
    assert set(before.ids[HCA]) < set(main.ids[HCA])
    assert len(zones(main.ids[HCA])) == 1
    calls = [(each.call, len(each.ids)) for each in plugin.asked]
    assert calls == [("allocate", 2), ("allocate", 3), ("start", 2), ("start", 3)]


async def test_what_init_containers_hold_binds_the_rest(nodes: Nodes) -> None:
    """After an init container that spread over both nodes, one id of node 0 is no match any more (extender 3)."""
    node = await nodes.make("restricted")
    await node.offer("a0 b1")
    found = await node.kubelet.admit(pod(asks(hca=1), init=(asks("before", hca=2),)))
    assert node.holders() == {node.kubelet.uid("pod")}
    assert found == Failed(pod="pod", reason=TOPOLOGY)


async def test_an_init_container_holds_for_the_pods_life(nodes: Nodes) -> None:
    """Ids that the main container does not take up again are still nobody else's (extender 3)."""
    node = await nodes.make()
    await node.offer("a0 b0 c0 d0")
    found = await node.run(pod(asks(hca=1), init=(asks("before", hca=3),)))
    assert len(found.seats) == 3
    assert not set(found.seats) & set((await node.run(PodRequest(name="late"))).seats)


async def test_a_sidecar_keeps_its_ids(nodes: Nodes) -> None:
    """A restartable init container's ids are not handed on, and a plain one's before it go to it first."""
    node = await nodes.make()
    await node.offer("a0 b0 c0 d0")
    found = await node.run(pod(asks(hca=1), init=(asks("before", hca=2), asks("side", hca=1, stays=True))))
    before, side = found.init
    (main,) = found.containers
    assert set(side.ids[HCA]) | set(main.ids[HCA]) == set(before.ids[HCA])
    assert side.ids != main.ids


async def test_resources_come_in_any_order(nodes: Nodes) -> None:
    """Which plugin is asked first differs from pod to pod, as a Go map is walked (experiments 5)."""
    node = await nodes.make()
    hca, gpu = await node.offer(eight("h")), await node.offer(eight("g"), GPU)
    gpu_first = set()
    for number in range(8):
        gate = Gate(hca)
        admitting = asyncio.create_task(node.run(pod(asks(hca=1, gpu=1), name=f"pod-{number}")))
        await gate.reached.wait()
        gpu_first.add(len(gpu.asked) > number)
        gate.opened.set()
        await admitting
    assert gpu_first == {True, False}


async def test_the_checkpoint_comes_after_all_of_a_container(nodes: Nodes) -> None:
    """During a call nothing of the container is written, unless a list is sent again (experiments 0.5)."""
    node = await nodes.make()
    hca, gpu = await node.offer(eight("h")), await node.offer(eight("g"), GPU)
    written = set()
    for number in range(6):
        gate = Gate(hca)
        admitting = asyncio.create_task(node.run(pod(asks(hca=1, gpu=1))))
        await gate.reached.wait()
        uid = node.kubelet.uid("pod")
        assert uid not in node.holders()
        await node.resend()
        resources = [entry.resource for entry in node.checkpoint().entries if entry.uid == uid]
        assert resources == [GPU] * (len(gpu.asked) - number)
        written.update(resources)
        gate.opened.set()
        await admitting
        assert [entry.uid for entry in node.checkpoint().entries] == [uid, uid]
        await node.kubelet.remove("pod")
    assert written == {GPU}


async def test_ended_pods_stay_until_the_next_allocation(nodes: Nodes) -> None:
    """The checkpoint names a pod that has ended until another is dealt something (experiments 9)."""
    node = await nodes.make()
    await node.offer("a0 b0")
    await node.run(PodRequest(name="one"))
    first = node.kubelet.uid("one")
    await node.kubelet.remove("one")
    assert node.holders() == {first}
    await node.resend()
    assert node.holders() == {first}
    await node.run(PodRequest(name="one"))
    assert node.holders() == {node.kubelet.uid("one")}
    assert node.kubelet.uid("one") != first


async def test_an_id_that_leaves_in_flight_is_the_end(nodes: Nodes) -> None:
    """An id that was picked and is listed no more when Allocate answers crashes the kubelet (experiments 0.1)."""
    node = await nodes.make("none")
    plugin = await node.offer("a- b-")
    gate = Gate(plugin)
    admitting = asyncio.create_task(node.kubelet.admit(PodRequest(name="pod", count=2)))
    await gate.reached.wait()
    await node.tell("a-")
    gate.opened.set()
    with pytest.raises(KubeletCrashedError, match="allocateContainerResources looks up b- of"):
        await admitting


async def test_a_preference_that_is_refused_fails_the_pod(nodes: Nodes) -> None:
    """An error of GetPreferredAllocation is the pod's end, with the plugin's text in the kubelet's words."""

    def refuse(_: Asked) -> list[str]:
        raise GRPCError(Status.INTERNAL, "no idea")

    node = await nodes.make()
    await node.offer("a0 b0", preference=refuse)
    error = "device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Internal desc = no idea"
    reason = f"UnexpectedAdmissionError: Allocate failed due to {error}, which is unexpected"
    assert await node.kubelet.admit(PodRequest(name="pod")) == Failed(pod="pod", reason=reason)


async def test_an_id_that_falls_ill_in_flight_is_dealt(nodes: Nodes) -> None:
    """Unhealthy in flight is harmless (experiments 0.1)."""
    node = await nodes.make()
    plugin = await node.offer("a0 b0")
    gate = Gate(plugin)
    admitting = asyncio.create_task(node.run(PodRequest(name="pod", count=2)))
    await gate.reached.wait()
    await node.tell("a0 b0", "b0")
    gate.opened.set()
    assert (await admitting).seats == ("a0", "b0")


async def test_a_failed_pod_holds_until_the_next(nodes: Nodes) -> None:
    """What the first container of a failed pod got is forgotten at the next allocation."""
    node = await nodes.make("restricted")
    await node.offer("a0 b1 c1")
    await node.offer("x0", GPU)
    outcome = await node.kubelet.admit(pod(asks("one", hca=1), asks("two", hca=1, gpu=1), name="bad"))
    assert outcome == Failed(pod="bad", reason=TOPOLOGY)
    assert node.holders() == {node.kubelet.uid("bad")}
    assert len((await node.run(PodRequest(name="all", count=3))).seats) == 3


@pytest.fixture
async def two_plugins(nodes: Nodes) -> SimNode:
    node = await nodes.make()
    for resource in (HCA, GPU):
        await node.offer(eight("x"), resource)
    return node


async def test_plugins_that_say_the_same_thing(two_plugins: SimNode) -> None:
    """One variable from two plugins has the value of either, at random at each start (experiments 2)."""
    kept = set()
    two_plugins.plugins[HCA].envs = {"NVIDIA_VISIBLE_DEVICES": "hca"}
    for seed in range(8):
        found = await two_plugins.run(pod(asks(hca=1, gpu=1), name=f"pod-{seed}"))
        kept.add(found.envs["NVIDIA_VISIBLE_DEVICES"] == "hca")
    assert kept == {True, False}
