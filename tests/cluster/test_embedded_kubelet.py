"""The embedded kubelet is judged here: asked the same as the real one, it must do the same.

It answers for the judge of the fast suite. It must not test the product.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from harness.cluster import Cluster, MakeNode
from judged import Judged, judged
from kubelets import GPU, HCA, Lists, age_of_this_run, embedded
from pod_resources import list_pods
from railside_sim.ages import KUBELET_1_34, KUBELET_1_37
from railside_sim.pod_spec import ContainerSpec, Pod
from railside_sim.policies import Policy
from railside_sim.topology_manager import Scope
from real_kubelet import Real

BARE, FAR, MIXED = "example.com/bare", "example.com/far", "example.com/mixed"
LISTS: Lists = {
    HCA: {f"h{number:02}": number // 6 for number in range(12)},
    GPU: {f"g{number}": number // 4 for number in range(8)},
    BARE: {"b0": None, "b1": None, "b2": None},
    FAR: {"f0": 5, "f1": 5},
    MIXED: {"m0": None, "m1": 0, "m2": None},
}


def asks(name: str = "main", *, stays: bool = False, **counts: int) -> ContainerSpec:
    resources = {"hca": HCA, "gpu": GPU, "bare": BARE, "far": FAR, "mixed": MIXED}
    requests = {resources[name]: count for name, count in counts.items()}
    return ContainerSpec(name=name, requests=requests, restartable=stays)


def pod(name: str, *containers: ContainerSpec, init: tuple[ContainerSpec, ...] = ()) -> Pod:
    return Pod(name=name, containers=containers, init_containers=init)


def direct(name: str, *containers: ContainerSpec) -> Pod:
    """A pod that no scheduler has seen."""
    return Pod(name=name, containers=containers, static=True)


PODS = (
    pod("one", asks(hca=1)),
    pod("both", asks(hca=2, gpu=2)),
    pod("init", asks(hca=3), init=(asks("before", hca=2),)),
    pod("wide", asks(hca=1, gpu=5)),
    pod("two", asks("first", hca=1, gpu=1), asks("second", hca=1)),
    pod("sidecar", asks(hca=1), init=(asks("before", hca=2), asks("side", hca=1, stays=True))),
    pod("bare", asks(bare=2)),
    pod("far", asks(far=1)),
    pod("mixed", asks(mixed=2)),
    pod("nothing", asks(hca=0, bare=0)),
    pod("beside", asks(hca=0, gpu=5)),
    direct("greedy", asks(hca=13)),
)


EVERY = tuple(each.name for each in PODS if each.name != "beside")
"""All that have room together."""
CONFIGURATIONS: tuple[tuple[Policy, Scope, tuple[str, ...]], ...] = (
    ("none", "container", ("both", "init", "bare", "greedy")),
    ("best-effort", "container", EVERY),
    ("restricted", "container", EVERY),
    ("restricted", "pod", ("both", "init", "wide", "two", "sidecar", "beside")),
    ("single-numa-node", "pod", ("both", "init", "wide", "two", "far", "beside", "greedy")),
)


@pytest.mark.timeout(300)
async def test_pods_of_every_shape(node: MakeNode, cluster: Cluster) -> None:
    """Under each policy, pods get ids of the same nodes by the same calls, or the same words of refusal."""
    nodes = [node(numa=2, policy=policy, scope=scope) for policy, scope, _ in CONFIGURATIONS]
    compared = [
        _differences(Real(cluster, made), *configuration)
        for made, configuration in zip(nodes, CONFIGURATIONS, strict=True)
    ]
    assert await asyncio.gather(*compared) == [[], [], [], [], []]


async def _differences(real: Real, policy: Policy, scope: Scope, names: tuple[str, ...]) -> list[object]:
    """What differs: pods, then the checkpoint's form, then PodResources List."""
    async with embedded(policy, scope) as ours, judged(ours, LISTS) as expected, judged(real, LISTS) as found:
        pods = [each for each in PODS if each.name in names]
        seen = [(each.name, await expected.admit(each), await found.admit(each)) for each in pods]
        forms = ("form", expected.shape(), found.shape())
        lists = ("list", await list_pods(ours.folder), await list_pods(real.folder))
        return [(policy, scope, *each) for each in (*seen, forms, lists) if each[1] != each[2]]


def with_init(name: str) -> Pod:
    return pod(name, asks(hca=1), init=(asks("before", hca=1),))


@pytest.fixture
def real(node: MakeNode, cluster: Cluster) -> Real:
    """A real kubelet under the policy that the platform asks for."""
    return Real(cluster, node(numa=2, policy="best-effort"))


def unexpected(error: str) -> str:
    error = f"{error}; cannot allocate unhealthy devices {HCA}"
    return f"UnexpectedAdmissionError: Allocate failed due to {error}, which is unexpected"


LATE = unexpected("no healthy devices present")
SICK = unexpected("previously allocated devices are no longer healthy")
OVER = f"Node didn't have enough resource: {GPU}, requested: 7, used: 2, capacity: 8"
HELD = ("h00", "h01")
GONE: Lists = {HCA: {"x0": 0, "x1": 0}}


async def test_restarts(real: Real) -> None:
    """In time all survive; too late, or with sick ids, init containers kill; a missing held id is the end."""
    async with both(real) as kubelets:
        for each in kubelets:
            await each.admit(with_init("early"))
            await each.admit(pod("plain", asks(hca=1)))
            assert await each.restart(in_time=True, sick=HELD)
            assert await each.kubelet.becomes("early", SICK)
            await each.recover()
            await each.admit(with_init("init"))
            assert await each.restart(in_time=True)
            await each.admit(pod("after", asks(hca=1)))
            for name in ("init", "plain", "after"):
                assert await each.kubelet.becomes(name, "Running")
            assert await each.restart(in_time=False)
            assert await each.kubelet.becomes("init", LATE)
            assert await each.kubelet.becomes("plain", "Running")
            assert not await each.restart(in_time=True, lists=GONE)
    assert "invalid memory address or nil pointer dereference" in real.log.read_text(errors="replace")


MAY_BECOME = {KUBELET_1_34: {"Running", LATE}, KUBELET_1_37: {"Running"}}
"""Which of a container's lives 1.34 looks at is left to chance."""


async def test_a_restarted_container_and_a_late_plugin(real: Real) -> None:
    """A container that has been restarted and runs may cost its pod's life in 1.34, and never in 1.37."""
    async with both(real) as kubelets:
        for each in kubelets:
            await each.admit(pod("again", asks(hca=1)))
            await each.kubelet.restart_container("again")
            assert await each.restart(in_time=False)
            await each.admit(pod("after", asks(hca=1)))
            assert await each.kubelet.outcome("again") in MAY_BECOME[age_of_this_run()]


async def test_ended_pods_in_the_checkpoint(real: Real) -> None:
    """An ended pod stays in the file after a List, and goes with the next writing of it."""
    async with both(real) as kubelets:
        assert [await each.forget() for each in kubelets] == [[1, 1, 1, 0], [1, 1, 1, 0]]


async def test_who_asked_too_early_counts_all_the_same(real: Real) -> None:
    """A pod of a resource nobody knows starts without it, and takes the room of those who come later."""
    async with both(real) as kubelets:
        for each in kubelets:
            early = await each.admit(direct("early", asks(gpu=2)))
            assert (early.outcome, early.nodes) == ("Running", {})
            async with judged(each.kubelet, {GPU: LISTS[GPU]}) as later:
                late = await later.admit(direct("late", asks(gpu=7)))
            assert late.outcome == f"OutOf{GPU}: {OVER}"


async def test_nothing_of_what_is_sick_is_refused(real: Real) -> None:
    """The scheduler does not look at 0, and the kubelet has no healthy device to deal it from."""
    async with both(real) as kubelets:
        for each in kubelets:
            await each.fall_ill(LISTS[HCA])
            assert (await each.admit(pod("nothing", asks(hca=0)))).outcome == LATE


@asynccontextmanager
async def both(real: Real) -> AsyncIterator[tuple[Judged, Judged]]:
    """The embedded kubelet and the real one, each with HCAs alone."""
    lists = {HCA: LISTS[HCA]}
    async with (
        embedded("best-effort", "container") as ours,
        judged(ours, lists) as expected,
        judged(real, lists) as found,
    ):
        yield expected, found
