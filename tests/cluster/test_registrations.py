"""How the kubelet of this run keeps count of plugins that register; the embedded one of its release does the same.

It answers for what differs between releases (see docs/kubelet-versions.md). It must not test the product.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from grpclib.exceptions import GRPCError

from harness.cluster import Cluster, MakeNode
from kubelets import HCA, Kubelet, age_of_this_run, embedded
from railside_proto import names
from railside_sim.gpu_plugin import GpuPlugin
from real_kubelet import Real

FEW, MANY = {"a": 0}, {"a": 0, "b": 0, "c": 0}


@pytest.fixture
async def kubelets(node: MakeNode, cluster: Cluster) -> AsyncIterator[tuple[Kubelet, Kubelet]]:
    """The embedded kubelet and the real one."""
    async with embedded("best-effort", "container") as ours:
        yield ours, Real(cluster, node(numa=2, policy="best-effort"))


@asynccontextmanager
async def plugins(kubelet: Kubelet) -> AsyncIterator[tuple[GpuPlugin, GpuPlugin]]:
    """One that offers few and has registered, and one that would offer many."""
    async with AsyncExitStack() as stack:
        folder = kubelet.folder / names.DEVICE_PLUGINS
        one = GpuPlugin(folder, FEW, resource=HCA, socket="one.sock")
        two = GpuPlugin(folder, MANY, resource=HCA, socket="two.sock")
        for plugin in (one, two):
            stack.push_async_callback(plugin.end)
        await one.serve_and_register()
        await kubelet.offers({HCA: len(FEW)})
        yield one, two


async def test_the_end_of_an_earlier_registration(kubelets: tuple[Kubelet, Kubelet]) -> None:
    """It takes the plugin that registered last along, or itself alone (1.37)."""
    stands = {"by resource": {}, "by path": MANY}[age_of_this_run().registers]
    for kubelet in kubelets:
        async with plugins(kubelet) as (one, two):
            await two.tell(FEW)
            await two.serve_and_register()
            await one.end()
            await two.tell(MANY)
            await kubelet.offers({HCA: len(stands)})


async def test_a_name_that_registers_twice(kubelets: tuple[Kubelet, Kubelet]) -> None:
    """It is taken each time, or refused for good, whoever stands behind it (1.37); another one is taken."""
    stands = {"by resource": {}, "by path": FEW}[age_of_this_run().registers]
    told = []
    for kubelet in kubelets:
        async with plugins(kubelet) as (one, two):
            told.append([await answer(one.register)])
            await one.end()
            told[-1].append(await answer(one.serve_and_register))
            await one.end()
            await kubelet.offers({HCA: len(stands)})
            await two.serve_and_register()
            await kubelet.offers({HCA: len(MANY)})
    assert told[0] == told[1]


async def answer(register: Callable[[], Awaitable[None]]) -> str:
    """The kubelet's words, without the folder."""
    try:
        await register()
    except GRPCError as error:
        return re.sub(r"\S+/(\w+\.sock)", r"\1", str(error.message))
    return "taken"
