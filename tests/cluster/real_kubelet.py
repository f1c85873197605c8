"""The real kubelet behind the face of :mod:`kubelets`: a node of the cluster, asked through the API server.

It answers for what a pod of the embedded kubelet's is in Kubernetes, and for what its kubelet made of it. It must
not look into the kubelet otherwise than through its files and its log.
"""

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from harness import objects, waiting
from harness.cluster import Cluster
from harness.node import ClusterNode
from kubelets import RUNNING, Register, Status, waits
from pod_resources import list_pods
from railside_proto import names
from railside_sim.pod_spec import ContainerSpec, Pod
from railside_sim.pods import ResourceStatus
from test_document import end_first_process, main_container

REJECTED = "Pod was rejected: "
_LABEL = "kubelets/node"
_ANCHOR = "kubernetes.io/hostname"
_LOOK_S = 0.2
_PATIENCE_S = 120.0
#: Ends at once when asked to, which the first process of a container else does not.
_SLEEP = ("sh", "-c", "trap exit TERM; sleep 100000 & wait")


class Real:
    """The real kubelet; its files are reached through the node's first process."""

    def __init__(self, cluster: Cluster, node: ClusterNode) -> None:
        self.folder = node.kubelet_folder
        self.pods: dict[str, str] = {}
        self._kubectl = cluster.kubectl
        self._node = node

    async def admit(self, pod: Pod) -> str:
        return (await self.admit_all([pod]))[pod.name]

    async def admit_all(self, pods: Sequence[Pod], *, wait_for_room: bool = False) -> dict[str, str]:
        """Has pods run or fail, all at once, and says what became of each.

        A pod that finds no room may find it in a moment; with ``wait_for_room`` it is taken at its word.
        """
        return await asyncio.to_thread(self._admit_all, pods, wait_for_room=wait_for_room)

    def _admit_all(self, pods: Sequence[Pod], *, wait_for_room: bool) -> dict[str, str]:
        items = [_manifest(pod, self._name(pod.name), self._node.name) for pod in pods]
        made = {"apiVersion": "v1", "kind": "List", "items": items}
        self._kubectl("create", "--validate=false", "-f", "-", stdin=json.dumps(made))
        seen = self._seen([pod.name for pod in pods], wait_for_room=wait_for_room)
        self.pods |= {each.metadata.uid: name for name, each in seen.items()}
        return {name: _phase(each) for name, each in seen.items()}

    def _seen(self, pods: Collection[str], *, wait_for_room: bool) -> dict[str, objects.Pod]:
        """Those pods when something has become of each, or when it takes too long."""

        def look() -> dict[str, objects.Pod] | None:
            seen = self._now(pods)
            decided = [each for each in seen.values() if _is_decided(each) or (wait_for_room and _lacks(each))]
            return seen if len(decided) == len(pods) else None

        try:
            return waiting.until_value(look, "pods to run or fail", _PATIENCE_S, every_s=_LOOK_S)
        except TimeoutError:
            return self._now(pods)

    def _now(self, pods: Collection[str]) -> dict[str, objects.Pod]:
        """Those of the pods that there are."""
        every = self._kubectl.labelled(f"{_LABEL}={self._node.name}")
        named = {self.name_of(each.metadata.name): each for each in every}
        return {name: each for name, each in named.items() if name in pods}

    async def remove(self, *pods: str) -> None:
        if pods:
            await asyncio.to_thread(self._remove, pods)

    def _remove(self, pods: Collection[str]) -> None:
        self._kubectl("delete", "pod", *map(self._name, pods), "--grace-period=1", "--wait=false")
        waiting.until_value(lambda: not self._now(pods) or None, "pods to go", _PATIENCE_S, every_s=_LOOK_S)

    async def becomes(self, pod: str, outcome: str) -> bool:
        def is_so(seen: objects.Pod) -> bool:
            return _is_decided(seen) and _phase(seen) == outcome

        await asyncio.to_thread(self._kubectl.wait, objects.Pod, self._name(pod), is_so)
        return True

    async def outcome(self, pod: str) -> str:
        return _phase(await asyncio.to_thread(self._kubectl.wait, objects.Pod, self._name(pod), _is_decided))

    async def restart_container(self, pod: str) -> None:
        await asyncio.to_thread(self._restart_container, self._name(pod))

    def _restart_container(self, name: str) -> None:
        end_first_process(self._kubectl, name)
        self._kubectl.wait(
            objects.Pod, name, lambda seen: seen.running and main_container(seen).restart_count == 1
        )

    async def offers(self, healthy: Mapping[str, int]) -> Status:
        wanted = {resource: str(count) for resource, count in healthy.items()}
        seen = await asyncio.to_thread(
            self._kubectl.wait,
            objects.Node,
            self._node.name,
            lambda node: wanted.items() <= node.status.allocatable.items(),
        )
        return {
            resource: ResourceStatus(capacity=int(seen.status.capacity[resource]), allocatable=count)
            for resource, count in healthy.items()
        }

    async def restart(self, register: Register, healthy: Mapping[str, int], *, in_time: bool) -> bool:
        del healthy  # they come when they come
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

    def _name(self, pod: str) -> str:
        """Names are one node's own, while the API server has several nodes."""
        return f"{pod}-{self._node.name}"

    def name_of(self, name: str) -> str:
        """The pod of that name in Kubernetes."""
        return name.removesuffix(self._name(""))

    @property
    def log(self) -> Path:
        """What the kubelet writes."""
        return self._node.kubelet.log


def _is_decided(pod: objects.Pod) -> bool:
    return pod.running or pod.status.phase == "Failed"


def _lacks(pod: objects.Pod) -> str | None:
    """The scheduler's sentence on a pod for which it finds no room."""
    of_scheduler = (one for one in pod.status.conditions if one.type == "PodScheduled")
    return next((one.message for one in of_scheduler if one.reason == "Unschedulable"), None)


def _phase(pod: objects.Pod) -> str:
    if pod.running:
        return RUNNING
    if pod.status.phase == "Failed":
        return f"{pod.status.reason}: {pod.status.message.removeprefix(REJECTED)}"
    lacks = _lacks(pod)
    return waits(lacks) if lacks else f"Pending: {pod.status}"


def _manifest(pod: Pod, name: str, node: str) -> dict[str, object]:
    place = {"nodeName": node} if pod.static else {"nodeSelector": {_ANCHOR: node}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {_LABEL: node}},
        "spec": {
            **place,
            "hostNetwork": True,
            "automountServiceAccountToken": False,
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
        "imagePullPolicy": "IfNotPresent",
        "command": _SLEEP,
        # A share of the processor, as the machine has few; what is left out is asked for as it is limited.
        "resources": {"limits": limits, "requests": {"cpu": "1m"} if "cpu" in limits else {}},
    }
