"""The kubelet's PodResources service: who holds what, for those who ask over its socket.

It answers for the answers' shape, for what a release does not tell, and for List's side effect
(pkg/kubelet/apis/podresources): it forgets ended pods, and ids in flight with them. It must not be asked by the
embedded kubelet itself.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from railside_proto.pb import podresources_v1_pb2 as pb
from railside_proto.pb.podresources_v1_grpc import PodResourcesListerBase
from railside_sim.ages import Age, Verb
from railside_sim.device_memory import DeviceMemory
from railside_sim.node_pods import NodePods
from railside_sim.pod_devices import NO_NODE
from railside_sim.pod_spec import ContainerSpec, Pod

if TYPE_CHECKING:
    from grpclib.server import Stream

_SERVICE: Final = "v1.PodResourcesLister"


class PodResources(PodResourcesListerBase):
    """Serves one start of the kubelet: nothing is listed before pods have been admitted again."""

    def __init__(self, memory: DeviceMemory, pods: NodePods, age: Age) -> None:
        self._memory = memory
        self._pods = pods
        self._age = age

    async def List(  # noqa: N802 - the wire's name
        self, stream: "Stream[pb.ListPodResourcesRequest, pb.ListPodResourcesResponse]"
    ) -> None:
        """Everything held by pods that have not ended, sidecars included."""
        await stream.recv_message()
        self._check("List")
        self._memory.purge()
        listed = [self._of_pod(pod) for pod in self._taken()]
        await stream.send_message(pb.ListPodResourcesResponse(pod_resources=listed))

    async def Get(  # noqa: N802 - the wire's name
        self, stream: "Stream[pb.GetPodResourcesRequest, pb.GetPodResourcesResponse]"
    ) -> None:
        """The same for one pod; UNKNOWN where there is none."""
        asked = await stream.recv_message() or pb.GetPodResourcesRequest()
        self._check("Get")
        for pod in self._taken():
            if (pod.name, pod.namespace) == (asked.pod_name, asked.pod_namespace):
                await stream.send_message(pb.GetPodResourcesResponse(pod_resources=self._of_pod(pod)))
                return
        raise GRPCError(Status.UNKNOWN, f"pod {asked.pod_name} in namespace {asked.pod_namespace} not found")

    async def GetAllocatableResources(  # noqa: N802 - the wire's name
        self, stream: "Stream[pb.AllocatableResourcesRequest, pb.AllocatableResourcesResponse]"
    ) -> None:
        """Healthy ids of all plugins, held or free."""
        await stream.recv_message()
        self._check("GetAllocatableResources")
        await stream.send_message(pb.AllocatableResourcesResponse(devices=self._healthy()))

    def _check(self, verb: Verb) -> None:
        """Refuses what this release does not know or do, as its Go server words it."""
        if not self._age.tells:
            raise GRPCError(Status.UNIMPLEMENTED, f"unknown service {_SERVICE}")
        if verb not in self._age.tells:
            raise GRPCError(Status.UNIMPLEMENTED, f"unknown method {verb} for service {_SERVICE}")
        if verb in self._age.switched_off:
            raise GRPCError(Status.UNKNOWN, f"Pod Resources API {verb} disabled")

    def _taken(self) -> list[Pod]:
        active = self._pods.active()
        return [each.pod for each in self._pods if each.pod.uid in active]

    def _healthy(self) -> Iterator[pb.ContainerDevices]:
        for resource, ids in self._memory.lists.registered().items():
            listed = self._memory.lists.listed(resource)
            for device in sorted(ids):
                yield from _entries(resource, device, listed[device].numa or ())

    def _of_pod(self, pod: Pod) -> pb.PodResources:
        """Containers that stay: what has gone to init containers is not shown, though it is held."""
        staying = [container for container in pod.in_order() if not pod.is_ending(container)]
        containers = [self._of_container(pod, container) for container in staying]
        return pb.PodResources(name=pod.name, namespace=pod.namespace, containers=containers)

    def _of_container(self, pod: Pod, container: ContainerSpec) -> pb.ContainerResources:
        devices: list[pb.ContainerDevices] = []
        for resource, dealt in self._memory.held.of_container(pod.uid, container.name).items():
            for node, ids in dealt.by_node.items():
                nodes = () if node == NO_NODE else (node,)
                devices += [entry for device in ids for entry in _entries(resource, device, nodes)]
        return pb.ContainerResources(name=container.name, devices=devices)


def _entries(resource: str, device: str, nodes: Iterable[int]) -> Iterator[pb.ContainerDevices]:
    """One entry for each NUMA node, and one without for an id of none."""
    known: list[pb.TopologyInfo | None] = [pb.TopologyInfo(nodes=[pb.NUMANode(ID=node)]) for node in sorted(nodes)]
    for topology in known or [None]:
        yield pb.ContainerDevices(resource_name=resource, device_ids=[device], topology=topology)
