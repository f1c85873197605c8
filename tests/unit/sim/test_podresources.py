"""PodResources of the embedded kubelet, over its socket: what it shows and what it does by the way."""

import asyncio

import pytest
from grpclib.client import Channel
from grpclib.exceptions import GRPCError
from tests.unit.sim.conftest import GPU, HCA, Gate, Nodes

from railside_proto.pb import podresources_v1_pb2 as pb
from railside_proto.pb.podresources_v1_grpc import PodResourcesListerStub
from railside_sim.pod_spec import ContainerSpec, Pod
from railside_sim.pods import PodRequest


async def test_who_holds_what(nodes: Nodes) -> None:
    """Sidecars are listed with their ids; init containers are not, though theirs are held (extender 3)."""
    node = await nodes.make()
    await node.offer("a0 b0 c0 d1")
    await node.offer("x- y-", GPU)
    asked = Pod(
        name="pod",
        init_containers=(
            ContainerSpec(name="before", requests={HCA: 3}),
            ContainerSpec(name="side", requests={GPU: 1}, restartable=True),
        ),
        containers=(ContainerSpec(name="main", requests={HCA: 1}), ContainerSpec(name="idle")),
    )
    found = await node.run(asked)
    side, main = set(found.init[1].ids[GPU]), set(found.containers[0].ids[HCA])
    assert await node.list_pods() == {"pod": {"side": side, "main": main, "idle": set()}}
    assert len(node.checkpoint().entries) == 3


async def test_one_pod(nodes: Nodes) -> None:
    """Get answers for one pod by name and namespace, and refuses an unknown one."""
    node = await nodes.make()
    await node.offer("a1")
    await node.run(Pod(name="pod", namespace="team", containers=(ContainerSpec(requests={HCA: 1}),)))
    async with Channel(path=str(node.folder / "pod-resources/kubelet.sock")) as channel:
        stub = PodResourcesListerStub(channel)
        found = await stub.Get(pb.GetPodResourcesRequest(pod_name="pod", pod_namespace="team"))
        (devices,) = found.pod_resources.containers[0].devices
        assert (devices.device_ids[0], devices.topology.nodes[0].ID) == ("a1", 1)
        with pytest.raises(GRPCError, match="pod pod in namespace default not found"):
            await stub.Get(pb.GetPodResourcesRequest(pod_name="pod", pod_namespace="default"))


async def test_what_could_be_held(nodes: Nodes) -> None:
    """Healthy ids of all plugins, one entry for each NUMA node, and none for a bare id (experiments 10)."""
    node = await nodes.make()
    await node.offer("a0 b1 c1")
    await node.offer("x-", GPU)
    await node.run(PodRequest(name="pod"))
    await node.tell("a0 b1 c1", "b1")
    assert await node.allocatable() == [("a0", (0,)), ("c1", (1,)), ("x-", None)]


async def test_nothing_is_listed_before_pods_are_admitted_again(nodes: Nodes) -> None:
    """Right after a start the list is empty, and afterwards as it was (experiments 0.7)."""
    node = await nodes.make()
    await node.offer("a0")
    await node.run(PodRequest(name="pod"))
    before = await node.list_pods()
    await node.kubelet.stop()
    await node.kubelet.start()
    assert await node.list_pods() == {}
    assert len(node.holders()) == 1
    await node.kubelet.readmit()
    assert await node.list_pods() == before == {"pod": {"main": {"a0"}}}


async def test_list_forgets_ended_pods(nodes: Nodes) -> None:
    """A List drops ended pods from memory, and the file follows when it is next written (experiments 9)."""
    node = await nodes.make()
    await node.offer("a0")
    await node.run(PodRequest(name="pod"))
    await node.kubelet.remove("pod")
    assert await node.list_pods() == {}
    await node.resend()
    assert node.holders() == set()


@pytest.mark.parametrize(("asks", "dealt_twice"), [(True, True), (False, False)], ids=["listed", "not-listed"])
async def test_a_list_in_flight_deals_an_id_twice(nodes: Nodes, *, asks: bool, dealt_twice: bool) -> None:
    """A List that forgets an ended pod while an Allocate runs makes its ids free again (experiments 0.4)."""
    node = await nodes.make()
    plugin = await node.offer("a0 b0 c1")
    await node.run(PodRequest(name="ending"))
    gate = Gate(plugin)
    admitting = asyncio.create_task(node.run(PodRequest(name="slow")))
    await gate.reached.wait()
    await node.kubelet.remove("ending")
    if asks:
        await node.list_pods()
    gate.opened.set()
    slow = (await admitting).seats
    dealt = [one for name in ("x", "y") for one in (await node.run(PodRequest(name=name))).seats]
    assert (slow[0] in dealt) == dealt_twice


async def test_what_is_in_flight_is_listed_already(nodes: Nodes) -> None:
    """While a container's second resource is asked for, List shows the pod with the first (experiments 5)."""
    node = await nodes.make()
    hca, gpu = await node.offer("a0"), await node.offer("x0", GPU)
    asked = Pod(name="pod", containers=(ContainerSpec(requests={HCA: 1, GPU: 1}),))
    shown = []
    for number in range(8):
        gate = Gate(hca)
        admitting = asyncio.create_task(node.run(asked))
        await gate.reached.wait()
        gpu_first = len(gpu.asked) > number
        shown.append((gpu_first, await node.list_pods()))
        gate.opened.set()
        await admitting
        await node.kubelet.remove("pod")
    assert (True, {"pod": {"main": {"x0"}}}) in shown
    assert (False, {"pod": {"main": set()}}) in shown
    assert len({gpu_first for gpu_first, _ in shown}) == 2
