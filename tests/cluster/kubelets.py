"""The real kubelet and the embedded one behind one face, so that both can be asked the same.

It answers for what is compared: what became of a pod, where its ids are, what plugins were asked, what the
checkpoint holds. It must not know what is right.
"""

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
from grpclib.client import Channel
from grpclib.exceptions import GRPCError, StreamTerminatedError

from harness import commands, objects, waiting
from harness.cluster import Cluster
from harness.node import ClusterNode
from railside_proto import names
from railside_proto.pb import podresources_v1_pb2 as pb
from railside_proto.pb.podresources_v1_grpc import PodResourcesListerStub
from railside_sim import checkpoint
from railside_sim.ages import AGES, Age
from railside_sim.device import KubeletCrashedError
from railside_sim.gpu_plugin import Asked, GpuPlugin
from railside_sim.kubelet import EmbeddedKubelet
from railside_sim.pod_devices import Entry
from railside_sim.pod_spec import ContainerSpec, Pod
from railside_sim.pods import Failed, Outcome, Running
from railside_sim.policies import Policy
from railside_sim.stand_in_nodes import StandInNodes
from railside_sim.topology_manager import Scope
from test_document import end_first_process, main_container

HCA, GPU = names.RESOURCE, names.GPU_RESOURCE
REJECTED = "Pod was rejected: "
_LIST_S = 5.0

Lists = Mapping[str, Mapping[str, int | None]]
"""NUMA nodes by id, by resource."""


class Call(NamedTuple):
    """A call to a plugin: how many ids were in it, how many of them sure, and how many were wanted."""

    name: str
    ids: int
    must_include: int
    size: int


class Seen(NamedTuple):
    """What became of a pod, the NUMA nodes of its ids, and the calls that it took, both by resource."""

    outcome: str
    nodes: dict[tuple[str, str], list[int]]
    calls: dict[str, list[Call]]


Register = Callable[[], Awaitable[None]]
"""Has all plugins register at a kubelet that has just started."""


class Kubelet(Protocol):
    """What both can do. Folders are as this process sees them."""

    folder: Path

    async def admit(self, pod: Pod) -> str:
        """Has a pod run or fail; what became of it."""

    async def remove(self, pod: str) -> None:
        """Ends a pod; returns when it is gone."""

    async def becomes(self, pod: str, outcome: str) -> bool:
        """Whether a pod, in the end, is so."""

    async def outcome(self, pod: str) -> str:
        """What has become of a pod by now."""

    async def restart_container(self, pod: str) -> None:
        """Ends the pod's one container; returns when it runs anew."""

    async def offers(self, lists: Lists) -> None:
        """Returns when all ids are allocatable."""

    async def restart(self, register: Register, lists: Lists, *, in_time: bool) -> bool:
        """Restarts; plugins register before or after pods are admitted again. Whether the kubelet lives.

        ``lists`` are the healthy ids by then.
        """

    def uid(self, pod: str) -> str:
        """The UID of a pod."""


class Embedded:
    """The embedded kubelet."""

    def __init__(self, folder: Path, kubelet: EmbeddedKubelet) -> None:
        self.folder = folder
        self._kubelet = kubelet

    async def admit(self, pod: Pod) -> str:
        return _told(await self._kubelet.admit(pod))

    async def remove(self, pod: str) -> None:
        await self._kubelet.remove(pod)

    async def becomes(self, pod: str, outcome: str) -> bool:
        return _told(self._kubelet.pods[pod]) == outcome

    async def outcome(self, pod: str) -> str:
        return _told(self._kubelet.pods[pod])

    async def restart_container(self, pod: str) -> None:
        await self._kubelet.restart_container(pod)

    async def offers(self, lists: Lists) -> None:
        for resource, ids in lists.items():
            await self._kubelet.until(lambda: self._kubelet.status_of(resource).allocatable == len(ids))  # noqa: B023 -- awaited here

    async def restart(self, register: Register, lists: Lists, *, in_time: bool) -> bool:
        await self._kubelet.stop()
        await self._kubelet.start()
        try:
            if in_time:
                await register()
                await self.offers(lists)
            await self._kubelet.readmit()
        except KubeletCrashedError:
            return False
        if not in_time:
            await register()
        return True

    def uid(self, pod: str) -> str:
        return self._kubelet.uid(pod)


def _told(outcome: Outcome) -> str:
    match outcome:
        case Running():
            return "Running"
        case Failed(reason=reason):
            return reason
        case _:
            return f"Pending: {outcome.reason}"


class Real:
    """The real kubelet, on a node of the cluster; its files are reached through its first process."""

    def __init__(self, cluster: Cluster, node: ClusterNode) -> None:
        self.folder = Path(f"/proc/{node.namespaces.first_pid}/root") / names.KUBELET_DIR.lstrip("/")
        self._cluster = cluster
        self._node = node
        self._uids: dict[str, str] = {}

    async def admit(self, pod: Pod) -> str:
        return await asyncio.to_thread(self._admit, pod)

    def _admit(self, pod: Pod) -> str:
        self._cluster.kubectl.apply(_manifest(pod, self._name(pod.name), self._node.name))
        seen = self._cluster.kubectl.wait(objects.Pod, self._name(pod.name), _is_decided)
        self._uids[pod.name] = seen.metadata.uid
        return _phase(seen)

    async def remove(self, pod: str) -> None:
        await asyncio.to_thread(self._remove, pod)

    def _remove(self, pod: str) -> None:
        self._cluster.kubectl("delete", "pod", self._name(pod), "--grace-period=1", "--wait=false")
        self._cluster.kubectl.wait_gone(objects.Pod, self._name(pod))

    async def becomes(self, pod: str, outcome: str) -> bool:
        def is_so(seen: objects.Pod) -> bool:
            return _is_decided(seen) and _phase(seen) == outcome

        await asyncio.to_thread(self._cluster.kubectl.wait, objects.Pod, self._name(pod), is_so)
        return True

    async def outcome(self, pod: str) -> str:
        return _phase(
            await asyncio.to_thread(self._cluster.kubectl.wait, objects.Pod, self._name(pod), _is_decided)
        )

    async def restart_container(self, pod: str) -> None:
        await asyncio.to_thread(self._restart_container, self._name(pod))

    def _restart_container(self, name: str) -> None:
        end_first_process(self._cluster.kubectl, name)

        def has_restarted(seen: objects.Pod) -> bool:
            return seen.running and main_container(seen).restart_count == 1

        self._cluster.kubectl.wait(objects.Pod, name, has_restarted)

    async def offers(self, lists: Lists) -> None:
        wanted = {resource: str(len(ids)) for resource, ids in lists.items()}
        await asyncio.to_thread(
            self._cluster.kubectl.wait,
            objects.Node,
            self._node.name,
            lambda node: wanted.items() <= node.status.allocatable.items(),
        )

    async def restart(self, register: Register, lists: Lists, *, in_time: bool) -> bool:
        del lists  # they come when they come
        await asyncio.to_thread(self._start_anew)
        if in_time:
            await register()
            return await self._lives()
        lives = await self._lives()
        await register()
        return lives

    def _start_anew(self) -> None:
        """Returns as soon as the new kubelet's socket is there, and those of all plugins are not."""
        socket = self.folder / names.DEVICE_PLUGINS / names.KUBELET_SOCKET
        self._node.kubelet.stop()
        socket.unlink()
        self._node.kubelet.launch()
        waiting.until(socket.exists, "the new kubelet's socket")

    async def _lives(self) -> bool:
        """Whether the kubelet gets as far as to have its pods again; it ends where it does not."""
        while self._node.kubelet.running:
            if await list_pods(self.folder):
                return True
            await asyncio.to_thread(waiting.pause)
        return False

    def uid(self, pod: str) -> str:
        return self._uids[pod]

    def _name(self, pod: str) -> str:
        """Names are one node's own, while the API server has several nodes."""
        return f"{pod}-{self._node.name}"

    @property
    def log(self) -> str:
        """What the kubelet wrote."""
        return self._node.kubelet.log.read_text(errors="replace")


def _is_decided(pod: objects.Pod) -> bool:
    return pod.running or pod.status.phase == "Failed"


def _phase(pod: objects.Pod) -> str:
    if pod.running:
        return "Running"
    return f"{pod.status.reason}: {pod.status.message.removeprefix(REJECTED)}"


def _manifest(pod: Pod, name: str, node: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
            "containers": [_container(one) for one in pod.containers],
            "initContainers": [
                {**_container(one), **({"restartPolicy": "Always"} if one.restartable else {"command": ["true"]})}
                for one in pod.init_containers
            ],
        },
    }


def _container(container: ContainerSpec) -> dict[str, object]:
    limits = {resource: str(count) for resource, count in container.requests.items()}
    return {
        "name": container.name,
        "image": "busybox",
        "command": ["sh", "-c", "trap exit TERM; sleep 100000 & wait"],
        "resources": {"limits": limits},
    }


class Judged:
    """One of the kubelets with plugins that offer ``lists``, asked and looked at."""

    def __init__(self, kubelet: Kubelet, plugins: dict[str, GpuPlugin], lists: Lists) -> None:
        self.kubelet = kubelet
        self._plugins = plugins
        self._lists = lists

    async def admit(self, pod: Pod) -> Seen:
        """Admits a pod."""
        before = {resource: len(plugin.asked) for resource, plugin in self._plugins.items()}
        outcome = await self.kubelet.admit(pod)
        uid = self.kubelet.uid(pod.name)
        nodes = {
            (entry.container, entry.resource): sorted(
                node for node, ids in entry.dealt.by_node.items() for _ in ids
            )
            for entry in self.entries()
            if entry.uid == uid
        }
        calls = {
            resource: [_call(asked) for asked in plugin.asked[before[resource] :]]
            for resource, plugin in self._plugins.items()
        }
        return Seen(outcome, nodes, calls)

    def entries(self) -> tuple[Entry, ...]:
        """The checkpoint's entries."""
        return checkpoint.read(self._file).entries

    def shape(self) -> object:
        """The checkpoint's form: its keys, and the types of what they name."""
        return _shape(msgspec.json.decode(self._file.read_bytes()))

    async def forget(self) -> list[int]:
        """Entries of one pod: while it runs, when it is gone, after a List, and after the list came again."""
        await self.admit(Pod(name="ending", containers=(ContainerSpec(requests={HCA: 1}),)))
        counts = [len(self.entries())]
        await self.kubelet.remove("ending")
        counts.append(len(self.entries()))
        await list_pods(self.kubelet.folder)
        counts.append(len(self.entries()))
        before = self._file.stat()
        await self._plugins[HCA].resend()
        await asyncio.to_thread(
            waiting.until, lambda: self._file.stat().st_ino != before.st_ino, "the checkpoint to be written anew"
        )
        return [*counts, len(self.entries())]

    async def restart(self, *, in_time: bool, lists: Lists | None = None, sick: Collection[str] = ()) -> bool:
        """Restarts the kubelet, with other lists if given, or with sick ids; whether it lives on."""
        now = lists or self._lists
        healthy = {resource: {one: ids[one] for one in ids if one not in sick} for resource, ids in now.items()}

        async def register() -> None:
            for resource, plugin in self._plugins.items():
                await plugin.end()
                await plugin.tell(now[resource], sick=sick)
                await plugin.serve_and_register()

        return await self.kubelet.restart(register, healthy, in_time=in_time)

    async def recover(self) -> None:
        """All ids are listed, and healthy."""
        for resource, plugin in self._plugins.items():
            await plugin.tell(self._lists[resource])
        await self.kubelet.offers(self._lists)

    @property
    def _file(self) -> Path:
        return self.kubelet.folder / names.DEVICE_PLUGINS / names.KUBELET_CHECKPOINT


async def list_pods(folder: Path) -> dict[str, dict[str, list[tuple[str, int]]]]:
    """PodResources List: resource and NUMA node of each id, by pod and container; empty while nobody answers."""
    try:
        async with Channel(path=str(folder / names.POD_RESOURCES / names.KUBELET_SOCKET)) as channel:
            answer = await PodResourcesListerStub(channel).List(pb.ListPodResourcesRequest(), timeout=_LIST_S)
    except (OSError, GRPCError, StreamTerminatedError):
        return {}
    return {
        pod.name.partition("-")[0]: {
            container.name: sorted(map(_place, container.devices)) for container in pod.containers
        }
        for pod in answer.pod_resources
    }


def _place(devices: pb.ContainerDevices) -> tuple[str, int]:
    return devices.resource_name, devices.topology.nodes[0].ID if devices.HasField("topology") else -1


def _call(asked: Asked) -> Call:
    return Call(asked.call, len(asked.ids), len(asked.must_include), asked.size)


def _shape(value: object) -> object:
    """Names of fields and resources stay; NUMA nodes, and the items of lists, become one example."""
    if isinstance(value, dict):
        return {key if key.strip("-0123456789") else "a node": _shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_shape(one) for one in value[:1]]
    return type(value).__name__


@asynccontextmanager
async def judged(kubelet: Kubelet, lists: Lists) -> AsyncIterator[Judged]:
    """Plugins that offer ``lists`` at a kubelet, and wish for the first ids by name."""
    folder = kubelet.folder / names.DEVICE_PLUGINS
    plugins = {
        resource: GpuPlugin(folder, ids, resource=resource, preference=_first, pre_start=True)
        for resource, ids in lists.items()
    }
    try:
        for plugin in plugins.values():
            await plugin.serve_and_register()
        await kubelet.offers(lists)
        yield Judged(kubelet, plugins, lists)
    finally:
        for plugin in plugins.values():
            await plugin.end()


def _first(asked: Asked) -> list[str]:
    free = [one for one in asked.ids if one not in asked.must_include]
    return [*asked.must_include, *free][: asked.size]


def age_of_this_run() -> Age:
    """The release of the kubelet that runs; KeyError for one that the embedded kubelet cannot be."""
    release = commands.run("kubelet", "--version").rpartition("v")[2].strip()
    return {age.release: age for age in AGES}[release]


@asynccontextmanager
async def embedded(policy: Policy, scope: Scope) -> AsyncIterator[Embedded]:
    """An embedded kubelet of two NUMA nodes, of the same release as the real one."""
    with tempfile.TemporaryDirectory(prefix="sim-") as name:
        rng = random.Random(1)  # noqa: S311 -- a repeatable choice
        age = age_of_this_run()
        async with EmbeddedKubelet(
            Path(name), read_node=StandInNodes().read, rng=rng, policy=policy, scope=scope, age=age
        ) as kubelet:
            yield Embedded(Path(name), kubelet)
