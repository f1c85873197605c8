"""A plugin that does nothing, as a process of its own: the floor of every call is one to it.

``python -m benchmarks.echo SOCKET`` says a line when it listens. It must not do more than read and answer.
"""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from railside_proto.pb import deviceplugin_v1beta1_pb2 as pb
from railside_proto.pb.deviceplugin_v1beta1_grpc import DevicePluginBase
from railside_sim.grpc_server import MortalServer

if TYPE_CHECKING:
    from grpclib.server import Stream


class EchoPlugin(DevicePluginBase):
    """Answers at once, with as much as a plugin would."""

    async def GetDevicePluginOptions(self, stream: "Stream[pb.Empty, pb.DevicePluginOptions]") -> None:  # noqa: N802
        """Ask to be asked."""
        await stream.recv_message()
        await stream.send_message(
            pb.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
        )

    async def ListAndWatch(self, stream: "Stream[pb.Empty, pb.ListAndWatchResponse]") -> None:  # noqa: N802
        """List nothing."""
        await stream.recv_message()
        await stream.send_message(pb.ListAndWatchResponse())

    async def GetPreferredAllocation(  # noqa: N802
        self, stream: "Stream[pb.PreferredAllocationRequest, pb.PreferredAllocationResponse]"
    ) -> None:
        """The first ids that come."""
        request = await stream.recv_message() or pb.PreferredAllocationRequest()
        answers = [
            pb.ContainerPreferredAllocationResponse(deviceIDs=one.available_deviceIDs[: one.allocation_size])
            for one in request.container_requests
        ]
        await stream.send_message(pb.PreferredAllocationResponse(container_responses=answers))

    async def Allocate(self, stream: "Stream[pb.AllocateRequest, pb.AllocateResponse]") -> None:  # noqa: N802
        """An answer without anything."""
        await stream.recv_message()
        await stream.send_message(pb.AllocateResponse(container_responses=[pb.ContainerAllocateResponse()]))

    async def PreStartContainer(  # noqa: N802
        self, stream: "Stream[pb.PreStartContainerRequest, pb.PreStartContainerResponse]"
    ) -> None:
        """Nothing."""
        await stream.recv_message()
        await stream.send_message(pb.PreStartContainerResponse())


async def _serve(path: Path) -> None:
    server = MortalServer([EchoPlugin()])
    await server.serve(path)
    print(flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
