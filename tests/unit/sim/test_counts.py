"""Who counts what a pod asks for: the scheduler before it comes, the kubelet after it was dealt."""

import pytest
from tests.unit.sim.conftest import GPU, HCA, Nodes, eight
from tests.unit.sim.test_admission import TOPOLOGY, asks, pod

from railside_sim.pod_spec import ContainerSpec, Pod
from railside_sim.pods import Failed, Pending, PodRequest
from railside_sim.policies import Policy

TOO_FEW = (
    "UnexpectedAdmissionError: Allocate failed due to requested number of devices unavailable for"
    f" {HCA}. Requested: 2, Available: 1, which is unexpected"
)


@pytest.mark.parametrize(("policy", "reason"), [("best-effort", TOO_FEW), ("restricted", TOPOLOGY)])
async def test_a_pod_past_the_scheduler_may_find_too_few(nodes: Nodes, policy: Policy, reason: str) -> None:
    """The kubelet deals before it counts: too few are a refusal of the device manager's, or of the policy's."""
    node = await nodes.make(policy)
    await node.offer("a0 b0")
    await node.run(PodRequest(name="one"))
    asked = Pod(name="direct", containers=(asks(hca=2),), static=True)
    assert await node.kubelet.admit(asked) == Failed(pod="direct", reason=reason)


async def test_who_asked_too_early_counts_all_the_same(nodes: Nodes) -> None:
    """A pod of a resource nobody knows starts without it, and takes the room of those who come later."""
    node = await nodes.make()
    early = await node.run(Pod(name="early", containers=(asks(hca=2),), static=True))
    assert early.seats == ()
    await node.offer("a0 b0")
    late = Pod(name="late", containers=(asks(hca=1),), static=True)
    reason = f"OutOf{HCA}: Node didn't have enough resource: {HCA}, requested: 1, used: 2, capacity: 2"
    assert await node.kubelet.admit(late) == Failed(pod="late", reason=reason)


async def test_to_ask_for_nothing_is_to_ask(nodes: Nodes) -> None:
    """0 of a resource are never dealt, and have hints all the same: with five GPUs, no width serves both."""
    node = await nodes.make("restricted")
    hca, gpu = await node.offer(eight("h")), await node.offer(eight("g"), GPU)
    nothing = ContainerSpec(requests={HCA: 0, GPU: 0})
    assert (await node.run(pod(nothing, name="nothing"))).seats == ()
    wide = pod(ContainerSpec(requests={HCA: 0, GPU: 5}))
    assert await node.kubelet.admit(wide) == Failed(pod="pod", reason=TOPOLOGY)
    assert (hca.asked, gpu.asked) == ([], [])


async def test_nothing_of_what_is_sick_is_refused(nodes: Nodes) -> None:
    """The scheduler does not look at 0, and the kubelet has no healthy device to deal it from."""
    node = await nodes.make()
    await node.offer("a0")
    await node.tell("a0", "a0")
    sick = f"no healthy devices present; cannot allocate unhealthy devices {HCA}"
    reason = f"UnexpectedAdmissionError: Allocate failed due to {sick}, which is unexpected"
    nothing = pod(ContainerSpec(requests={HCA: 0}))
    assert await node.kubelet.admit(nothing) == Failed(pod="pod", reason=reason)


async def test_the_scheduler_counts_what_is_asked(nodes: Nodes) -> None:
    """A sick held id blocks an idle one, and every lacking resource is named, but cpu (experiments 4)."""
    node = await nodes.make()
    await node.offer("a0 b0")
    (held,) = (await node.run(PodRequest(name="one"))).seats
    await node.tell("a0 b0", held)
    asked = pod(ContainerSpec(requests={HCA: 1, GPU: 1, "cpu": 64}))
    reason = f"0/1 nodes are available: 1 Insufficient {GPU}, 1 Insufficient {HCA}."
    assert await node.kubelet.admit(asked) == Pending(pod="pod", reason=reason)
    await node.kubelet.remove("one")
    assert (await node.run(PodRequest(name="two"))).seats == tuple({"a0", "b0"} - {held})
