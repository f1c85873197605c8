"""A device plugin as one writes it in an afternoon: an id for each HCA. Run: ``naive_plugin ROOT KUBELET_FOLDER``.

It must stay naive: it is there to show what each law catches.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from grpclib.client import Channel
from grpclib.server import Server

from railside_proto.names import RESOURCE
from railside_proto.pb import deviceplugin_v1beta1_pb2 as pb
from railside_proto.pb.deviceplugin_v1beta1_grpc import DevicePluginBase, RegistrationStub

ROOT, SOCKETS = Path(sys.argv[1]), Path(sys.argv[2]) / "device-plugins"


def _device(entry: Path) -> pb.Device:
    hca = ROOT / "sys/class/infiniband" / (entry / "ibdev").read_text().strip()
    node = int((hca / "device/numa_node").read_text())
    topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=node)]) if node >= 0 else None
    active = "ACTIVE" in (hca / "ports/1/state").read_text()
    return pb.Device(ID=entry.name, health="Healthy" if active else "Unhealthy", topology=topology)


class Naive(DevicePluginBase):
    """Lists what is there now, and hands over the nodes that the ids are called after."""

    async def GetDevicePluginOptions(self, stream: Any) -> None:  # noqa: ANN401, N802
        """No wishes."""
        await stream.recv_message()
        await stream.send_message(pb.DevicePluginOptions())

    async def ListAndWatch(self, stream: Any) -> None:  # noqa: ANN401, N802
        """All InfiniBand devices, each second."""
        await stream.recv_message()
        while True:
            found = (ROOT / "sys/class/infiniband_verbs").glob("uverbs*")
            devices = [_device(one) for one in found if "bond" not in (one / "ibdev").read_text()]
            await stream.send_message(pb.ListAndWatchResponse(devices=devices))
            await asyncio.sleep(1)

    async def GetPreferredAllocation(self, stream: Any) -> None:  # noqa: ANN401, N802
        """Never asked."""

    async def Allocate(self, stream: Any) -> None:  # noqa: ANN401, N802
        """The node of each id."""
        request = await stream.recv_message()
        answers = [[f"/dev/infiniband/{one}" for one in each.devices_ids] for each in request.container_requests]
        await stream.send_message(
            pb.AllocateResponse(
                container_responses=[
                    pb.ContainerAllocateResponse(
                        devices=[
                            pb.DeviceSpec(host_path=f"{ROOT}{path}", container_path=path, permissions="rw")
                            for path in paths
                        ]
                    )
                    for paths in answers
                ]
            )
        )

    async def PreStartContainer(self, stream: Any) -> None:  # noqa: ANN401, N802
        """Never asked."""


async def main() -> None:
    """Serve, and register anew when the kubelet's socket is another one: looked at every other second."""
    known: tuple[int, int] | None = None
    server: Server | None = None
    while True:
        found = (SOCKETS / "kubelet.sock").stat()
        if known != (found.st_ino, found.st_mtime_ns):
            known = (found.st_ino, found.st_mtime_ns)
            if server is not None:
                server.close()
            (SOCKETS / "naive.sock").unlink(missing_ok=True)
            server = Server([Naive()])
            await server.start(path=str(SOCKETS / "naive.sock"))
            request = pb.RegisterRequest(version="v1beta1", endpoint="naive.sock", resource_name=RESOURCE)
            async with Channel(path=str(SOCKETS / "kubelet.sock")) as channel:
                await RegistrationStub(channel).Register(request)
        await asyncio.sleep(2)


if __name__ == "__main__":
    asyncio.run(main())
