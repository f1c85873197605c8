"""Says the agent's values in the words of the kubelet's device plugin API. It must not decide anything."""

from typing import Final

from railside_agent.container_edits import ContainerEdits
from railside_agent.seats import Offer, OfferedSeat
from railside_proto.pb import deviceplugin_v1beta1_pb2 as pb

HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"


def device_list(offer: Offer) -> pb.ListAndWatchResponse:
    """The whole list of a pool."""
    return pb.ListAndWatchResponse(devices=map(_device, offer.seats))


def _device(offered: OfferedSeat) -> pb.Device:
    nodes = [pb.NUMANode(ID=number) for number in offered.seat.numa_nodes]
    return pb.Device(
        ID=offered.seat.id,
        health=HEALTHY if offered.healthy else UNHEALTHY,
        # No TopologyInfo and an empty one differ: the first fits everywhere, the second nowhere.
        topology=pb.TopologyInfo(nodes=nodes) if nodes else None,
    )


def allocate_answer(edits: ContainerEdits) -> pb.ContainerAllocateResponse:
    """The answer for one container."""
    return pb.ContainerAllocateResponse(
        devices=[
            pb.DeviceSpec(container_path=device.container_path, host_path=device.host_path, permissions="rw")
            for device in edits.devices
        ],
        mounts=[
            pb.Mount(container_path=mount.container_path, host_path=mount.host_path, read_only=True)
            for mount in edits.mounts
        ],
        envs=edits.environment,
    )
