"""A node of the cluster for careless plugins, with the pods that ask them for HCAs.

It answers for restarts and boots of the node under both, and for what the kubelet's books say. It must not know
what is right, nor use the product.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from asking import LASTS, Manifest, pod_of
from careless import Careless, Ids, Loop
from harness import waiting
from harness.cluster import Cluster
from harness.kubelet import NodeSettings
from harness.node import ClusterNode
from harness.objects import Node, Pod
from pod_resources import list_pods
from railside_proto.names import (
    DEVICE_PLUGINS,
    GPU_RESOURCE,
    KUBELET_CHECKPOINT,
    KUBELET_SOCKET,
    RESOURCE,
)
from railside_sim import checkpoint
from railside_sim.gpu_plugin import GpuPlugin, Preference

NOTED = "Processed device updates for resource"
REFUSED = "Pod admission denied"
CRASH = "panic: runtime error: invalid memory address or nil pointer dereference"


class Ground:
    """A node, its plugins and its pods."""

    def __init__(self, cluster: Cluster, node: ClusterNode, loop: Loop) -> None:
        self.kubectl = cluster.kubectl
        self._api_server = cluster.control_plane.api_server
        self.node = node
        self.folder = node.kubelet_folder
        self._loop = loop
        self._plugins: list[Careless] = []

    def plugin(
        self,
        ids: Ids,
        *,
        resource: str = RESOURCE,
        preference: Preference | None = None,
        devices: Mapping[str, Path] | None = None,
        socket: str = "careless.sock",
        envs: Mapping[str, str] | None = None,
    ) -> Careless:
        """A plugin that has registered, and whose ids all are offered; ``devices`` are what it hands over."""
        folder = self.folder / DEVICE_PLUGINS

        async def make() -> GpuPlugin:
            return GpuPlugin(folder, ids, resource=resource, preference=preference, socket=socket)

        made = self._loop.run(make())
        made.envs = dict(envs or {})
        made.nodes = {one: (str(path),) for one, path in (devices or {}).items()}
        careless = Careless(made, self._loop)
        self._plugins.append(careless)
        # A kubelet that hears late of an earlier plugin's end hangs up on the one that registered last.
        self._await_none_offered(resource)
        careless.register()
        self.await_offered(len(ids), resource=resource)
        return careless

    def await_offered(self, allocatable: int, capacity: int | None = None, resource: str = RESOURCE) -> None:
        """Return when the API server's node shows so many."""
        wanted = (allocatable if capacity is None else capacity, allocatable)
        self.kubectl.wait(Node, self.node.name, lambda node: _offered(node, resource) == wanted)

    def _await_none_offered(self, resource: str) -> None:
        self.kubectl.wait(Node, self.node.name, lambda node: _offered(node, resource)[1] == 0)

    def listed(self) -> set[str]:
        """Healthy ids that the kubelet has taken note of."""
        return set(self._kept().registered.get(RESOURCE, ()))

    def held(self, pod: str) -> set[str]:
        """Ids that the kubelet's checkpoint gives to a pod."""
        uid = self.seen(pod).metadata.uid
        return {one for entry in self._kept().entries if entry.uid == uid for one in entry.dealt.ids}

    def _kept(self) -> checkpoint.Kept:
        return checkpoint.read(self.folder / DEVICE_PLUGINS / KUBELET_CHECKPOINT)

    def restart_kubelet(self, *, list_comes: Callable[[], None] | None) -> bool:
        """Start another kubelet; whether it gets as far as to its pods.

        A list that comes is there before the kubelet learns of its pods. On a calm node a plugin has 1.2 s for
        that, and on a busy one anything.
        """
        self.node.kubelet.stop()
        return self._start_kubelet(list_comes)

    def boot(self, *, list_comes: Callable[[], None]) -> bool:
        """Start a node that has lost its power; otherwise the same."""
        self.node.containerd.start()
        return self._start_kubelet(list_comes)

    def _start_kubelet(self, list_comes: Callable[[], None] | None) -> bool:
        with self._api_server.paused():
            self._launch_kubelet()
            if list_comes is not None:
                noted = self._lists_noted()
                list_comes()
                waiting.until(lambda: self._lists_noted() > noted, "the kubelet to take note of the list")
        return self._lives()

    def _launch_kubelet(self) -> None:
        """Start the program; return when its socket is there, and not the one of the kubelet before."""
        socket = self.folder / DEVICE_PLUGINS / KUBELET_SOCKET
        socket.unlink()
        self.node.kubelet.launch()
        waiting.until(socket.exists, "the new kubelet's socket")

    def _lists_noted(self) -> int:
        """How often the kubelet has taken note of a list: its checkpoint does not tell where one is the same."""
        return self._log().count(NOTED)

    def _log(self) -> str:
        return self.node.kubelet.log.read_text(errors="replace")

    def _lives(self) -> bool:
        """Whether the kubelet admits its pods again; it ends where it does not."""
        return waiting.until_value(self._fate, "the kubelet to list its pods, or to end")

    def _fate(self) -> bool | None:
        if not self.node.kubelet.running:
            return False
        return True if self.pods_listed() else None

    def pods_listed(self) -> set[str]:
        """What PodResources List names: nothing before the kubelet has admitted its pods."""
        return set(self._loop.run(list_pods(self.folder)))

    def refusals(self) -> int:
        """How often it has refused a pod, before the API server hears of it."""
        return self._log().count(REFUSED)

    def await_crash(self) -> None:
        """Return when the kubelet has ended."""
        waiting.until(lambda: not self.node.kubelet.running, "the kubelet to crash")

    def crashes(self) -> int:
        """How often it has crashed on an id that is missing."""
        return self._log().count(CRASH)

    def ask(self, *manifests: Manifest) -> None:
        """Create pods."""
        self.kubectl.apply({"apiVersion": "v1", "kind": "List", "items": list(manifests)})

    def start(self, *manifests: Manifest) -> list[Pod]:
        """Create pods, and return when they run."""
        self.ask(*manifests)
        return [self.becomes(one["metadata"]["name"], lambda pod: pod.running) for one in manifests]

    def pod(self, name: str, *command: str, count: int = 1, gpus: int = 0, init: bool = False) -> Manifest:
        """A pod of this node that asks for HCAs, and maybe GPUs."""
        limits = {RESOURCE: count, **({GPU_RESOURCE: gpus} if gpus else {})}
        return pod_of(self.node.name, name, command or LASTS, limits, init=init)

    def becomes(self, pod: str, fits: Callable[[Pod], bool]) -> Pod:
        """The pod when it is so."""
        return self.kubectl.wait(Pod, pod, fits, timeout_s=40)

    def seen(self, pod: str) -> Pod:
        """The pod as it is."""
        return self.becomes(pod, lambda _: True)

    def remove(self, *pods: str) -> None:
        """Delete pods, and return when the kubelet has let them go."""
        self.kubectl("delete", "pod", *pods, "--grace-period=1", "--wait=false")
        for pod in pods:
            self.kubectl.wait_gone(Pod, pod)

    def devices_inside(self, pod: str) -> str:
        """Type, numbers and name of all that is in the container's /dev/infiniband."""
        return self.kubectl.execute(
            pod, "sh", "-c", "(cd /dev/infiniband && stat -c '%F %t:%T %n' *) 2>&1; true", container="main"
        )

    def clear(self) -> None:
        """End all plugins and pods; the kubelet runs behind it."""
        for plugin in self._plugins:
            plugin.end()
        self._plugins.clear()
        mine = f"ground={self.node.name}"
        crashed = not self.node.kubelet.running
        # A kubelet that has just started takes 10 s to say that a pod which never ran has ended.
        soon = ("--grace-period=0", "--force") if crashed else ("--grace-period=1",)
        self.kubectl("delete", "pods", "-l", mine, *soon, "--wait=false")
        if crashed:
            self._launch_kubelet()
            self.node.kubelet.await_ready()
        waiting.until(lambda: not self.kubectl.get("pods", "-l", mine)["items"], "the pods to go", timeout_s=40)


def _offered(node: Node, resource: str) -> tuple[int, int]:
    capacity, allocatable = (of.get(resource, "0") for of in (node.status.capacity, node.status.allocatable))
    return int(capacity), int(allocatable)


@contextmanager
def ground(cluster: Cluster, policy: str = "best-effort") -> Iterator[Ground]:
    """A node of two NUMA nodes for careless plugins."""
    # Its status tells soon what a plugin offers.
    settings = NodeSettings(numa=2, policy=policy, kubelet={"nodeStatusUpdateFrequency": "1s"})
    with Loop() as loop, cluster.node(settings) as node:
        yield Ground(cluster, node, loop)
