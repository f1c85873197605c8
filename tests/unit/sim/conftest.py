"""A node for the embedded kubelet's own tests: plugins whose ids end in their NUMA node."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from grpclib.client import Channel

from railside_proto import names
from railside_proto.pb import podresources_v1_pb2 as pb
from railside_proto.pb.podresources_v1_grpc import PodResourcesListerStub
from railside_sim.ages import KUBELET_1_34, Age
from railside_sim.chance import Chance
from railside_sim.checkpoint import Kept, read
from railside_sim.gpu_plugin import GpuPlugin, Preference
from railside_sim.gpu_plugin import Nodes as NumaNodes
from railside_sim.kubelet import EmbeddedKubelet
from railside_sim.pod_spec import Pod
from railside_sim.pods import Outcome, PodRequest, Running
from railside_sim.policies import Policy
from railside_sim.stand_in_nodes import StandInNodes
from railside_sim.topology_manager import Scope

HCA, GPU = names.RESOURCE, names.GPU_RESOURCE


def numa(ids: str) -> dict[str, NumaNodes]:
    """``a0 b1 c-``: ids by their last letter's NUMA node, a dash for none."""
    return {one: None if one.endswith("-") else int(one[-1]) for one in ids.split()}


def eight(letter: str) -> str:
    """Four ids on each of two NUMA nodes."""
    return " ".join(f"{letter}{number}{number // 4}" for number in range(8))


def first_of(count: int) -> Preference:
    """Wishes for the first ids by name."""
    return lambda asked: [*asked.must_include, *(one for one in asked.ids if one not in asked.must_include)][
        :count
    ]


class Gate:
    """Holds up a plugin's Allocate: ``reached`` tells that it is there, and it goes on once ``opened``."""

    def __init__(self, plugin: GpuPlugin) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        plugin.before_answer = self._wait

    async def _wait(self) -> None:
        self.reached.set()
        await self.opened.wait()


class SimNode:
    """An embedded kubelet, its plugins by resource, and what it tells others."""

    def __init__(self, folder: Path, kubelet: EmbeddedKubelet) -> None:
        self.folder = folder
        self.kubelet = kubelet
        self.plugins: dict[str, GpuPlugin] = {}
        self._made: list[GpuPlugin] = []

    async def offer(
        self,
        ids: str,
        resource: str = HCA,
        preference: Preference | None = None,
        *,
        nodes: Mapping[str, NumaNodes] | None = None,
        pre_start: bool = False,
        socket: str = "",
    ) -> GpuPlugin:
        """A new plugin, registered and counted; ``nodes`` go before what the ids say."""
        folder = self.folder / names.DEVICE_PLUGINS
        gpus = numa(ids) | dict(nodes or {})
        plugin = GpuPlugin(
            folder, gpus, resource=resource, preference=preference, pre_start=pre_start, socket=socket
        )
        self._made.append(plugin)
        self.plugins[resource] = plugin
        await plugin.serve_and_register()
        await self.listed(ids, resource)
        return plugin

    async def end(self) -> None:
        """All plugins end."""
        for plugin in self._made:
            await plugin.end()

    async def tell(self, ids: str, *sick: str, resource: str = HCA) -> None:
        """Another list of the plugin, at the kubelet when this returns."""
        await self.plugins[resource].tell(numa(ids), sick=sick)
        await self.listed(ids, resource, healthy=len(ids.split()) - len(sick))

    async def resend(self, resource: str = HCA) -> None:
        """The list once more, unchanged; written down by the kubelet when this returns."""
        file = self.folder / names.DEVICE_PLUGINS / names.KUBELET_CHECKPOINT
        before = file.stat().st_ino, file.stat().st_mtime_ns
        await self.plugins[resource].resend()
        await self.kubelet.until(lambda: (file.stat().st_ino, file.stat().st_mtime_ns) != before)

    async def listed(self, ids: str, resource: str = HCA, *, healthy: int | None = None) -> None:
        count = len(ids.split()) if healthy is None else healthy
        await self.kubelet.until(
            lambda: (
                [one.id for one in self.kubelet.listed(resource)] == ids.split()
                and self.kubelet.status_of(resource).allocatable == count
            )
        )

    async def run(self, asked: PodRequest | Pod) -> Running:
        """A pod that must run."""
        outcome: Outcome = await self.kubelet.admit(asked)
        assert isinstance(outcome, Running), outcome
        return outcome

    def checkpoint(self) -> Kept:
        return read(self.folder / names.DEVICE_PLUGINS / names.KUBELET_CHECKPOINT)

    def holders(self) -> set[str]:
        """UIDs in the checkpoint."""
        return {entry.uid for entry in self.checkpoint().entries}

    async def list_pods(self) -> dict[str, dict[str, set[str]]]:
        """PodResources List: ids by pod and container."""
        async with Channel(path=str(self._pod_resources)) as channel:
            answer = await PodResourcesListerStub(channel).List(pb.ListPodResourcesRequest())
        return {
            pod.name: {
                container.name: {one for devices in container.devices for one in devices.device_ids}
                for container in pod.containers
            }
            for pod in answer.pod_resources
        }

    async def allocatable(self) -> list[tuple[str, tuple[int, ...] | None]]:
        """PodResources GetAllocatableResources: each entry's id and nodes, None without topology."""
        async with Channel(path=str(self._pod_resources)) as channel:
            stub = PodResourcesListerStub(channel)
            answer = await stub.GetAllocatableResources(pb.AllocatableResourcesRequest())
        return [
            (
                one.device_ids[0],
                tuple(node.ID for node in one.topology.nodes) if one.HasField("topology") else None,
            )
            for one in answer.devices
        ]

    @property
    def _pod_resources(self) -> Path:
        return self.folder / names.POD_RESOURCES / names.KUBELET_SOCKET


@pytest.fixture
async def nodes(kubelet_dir: Path) -> AsyncIterator["Nodes"]:
    """Makes the node of a test."""
    async with AsyncExitStack() as stack:
        yield Nodes(kubelet_dir, stack)


class Nodes:
    """Makes a node that lasts for the test."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self._folder = folder
        self._stack = stack

    async def make(
        self,
        policy: Policy = "best-effort",
        scope: Scope = "container",
        seed: int = 1,
        chance: Chance | None = None,
        age: Age = KUBELET_1_34,
    ) -> SimNode:
        kubelet = EmbeddedKubelet(
            self._folder,
            read_node=StandInNodes().read,
            rng=random.Random(seed),  # noqa: S311 -- a repeatable choice
            policy=policy,
            scope=scope,
            chance=chance,
            age=age,
        )
        await self._stack.enter_async_context(kubelet)
        node = SimNode(self._folder, kubelet)
        self._stack.push_async_callback(node.end)
        return node
