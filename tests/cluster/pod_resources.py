"""A kubelet's PodResources service, asked over its socket.

It answers for what is compared of the answers: ids' resources and NUMA nodes. It must not know who asks.
"""

from pathlib import Path

from grpclib.client import Channel
from grpclib.exceptions import GRPCError, StreamTerminatedError

from railside_proto import names
from railside_proto.pb import podresources_v1_pb2 as pb
from railside_proto.pb.podresources_v1_grpc import PodResourcesListerStub

_PATIENCE_S = 5.0

Place = tuple[str, int]
"""An id's resource and NUMA node, -1 for none."""


async def list_pods(folder: Path) -> dict[str, dict[str, list[Place]]]:
    """PodResources List: the place of each id, by pod and container; empty while nobody answers."""
    try:
        async with Channel(path=_socket(folder)) as channel:
            answer = await PodResourcesListerStub(channel).List(pb.ListPodResourcesRequest(), timeout=_PATIENCE_S)
    # grpclib's AttributeError comes where a kubelet that ends hangs up on who has just connected.
    except (OSError, GRPCError, StreamTerminatedError, AttributeError):
        return {}
    return {
        pod.name.partition("-")[0]: {
            container.name: sorted(map(_place, container.devices)) for container in pod.containers
        }
        for pod in answer.pod_resources
    }


async def allocatable(folder: Path) -> list[tuple[Place, list[str]]]:
    """PodResources GetAllocatableResources: the healthy ids and their places."""
    async with Channel(path=_socket(folder)) as channel:
        asked = pb.AllocatableResourcesRequest()
        answer = await PodResourcesListerStub(channel).GetAllocatableResources(asked, timeout=_PATIENCE_S)
    return sorted((_place(devices), list(devices.device_ids)) for devices in answer.devices)


def _socket(folder: Path) -> str:
    return str(folder / names.POD_RESOURCES / names.KUBELET_SOCKET)


def _place(devices: pb.ContainerDevices) -> Place:
    return devices.resource_name, devices.topology.nodes[0].ID if devices.HasField("topology") else -1
