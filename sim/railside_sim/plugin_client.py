"""The kubelet's side of one registered device plugin: dial, follow its list, ask it.

It answers for the calls and for the errors' text as the kubelet (Go) words them. It must not choose ids or know
of pods.
"""

import contextlib
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.exceptions import GRPCError, StreamTerminatedError

from railside_proto.pb import deviceplugin_v1beta1_pb2 as pb
from railside_proto.pb.deviceplugin_v1beta1_grpc import DevicePluginStub
from railside_sim.selection import ListedDevice

_PATIENCE_S: Final = 30.0
"""The kubelet sets this deadline on PreStartContainer and none on the others; here it holds for all."""

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class PluginError(Exception):
    """A plugin refused, hung or is gone; the text is the kubelet's. The caller makes an outcome of it."""


class PluginClient:
    """One plugin behind one socket. ``connect`` first; ``follow`` runs until the plugin's stream ends."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._channel = Channel(path=str(socket))
        self._stub = DevicePluginStub(self._channel)
        self._options = pb.DevicePluginOptions()
        self._stopped = False
        self.devices: tuple[ListedDevice, ...] = ()
        """The list as last told; all of it unhealthy once the stream has ended."""

    async def connect(self) -> None:
        """Asks for the options, as the kubelet does inside Register. Raises PluginError."""
        self._options = await self._ask(self._stub.GetDevicePluginOptions, pb.Empty())

    async def follow(self, changed: Callable[[], Awaitable[None]]) -> None:
        """Keeps ``devices`` as the plugin tells them, calling ``changed`` after each change and at the end."""
        try:
            with contextlib.suppress(GRPCError, StreamTerminatedError, OSError):
                await self._follow(changed)
        finally:
            self.close()
        await changed()

    async def preferred(
        self,
        available: frozenset[str],
        must_include: frozenset[str],
        count: int,
    ) -> frozenset[str]:
        """The ids that the plugin would choose; none where it does not offer to. Raises PluginError."""
        if not self._options.get_preferred_allocation_available:
            return frozenset()
        wish = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=sorted(available),
            must_include_deviceIDs=sorted(must_include),
            allocation_size=count,
        )
        request = pb.PreferredAllocationRequest(container_requests=[wish])
        answer = await self._ask(self._stub.GetPreferredAllocation, request)
        return frozenset(chosen for each in answer.container_responses for chosen in each.deviceIDs)

    async def allocate(self, ids: Collection[str]) -> pb.ContainerAllocateResponse:
        """The answer for one container. Raises PluginError, also where there is not one answer."""
        container = pb.ContainerAllocateRequest(devices_ids=list(ids))
        answer = await self._ask(self._stub.Allocate, pb.AllocateRequest(container_requests=[container]))
        if len(answer.container_responses) != 1:
            raise PluginError(f"{len(answer.container_responses)} answers for one container")
        return answer.container_responses[0]

    async def pre_start(self, ids: Collection[str]) -> None:
        """Tells the plugin that a container starts, if it asked to be told. Raises PluginError."""
        if self._options.pre_start_required:
            await self._ask(self._stub.PreStartContainer, pb.PreStartContainerRequest(devices_ids=list(ids)))

    def close(self) -> None:
        """Hangs up. The list stays, unhealthy."""
        self._stopped = True
        self.devices = tuple(msgspec.structs.replace(device, healthy=False) for device in self.devices)
        self._channel.close()

    async def _follow(self, changed: Callable[[], Awaitable[None]]) -> None:
        async with self._stub.ListAndWatch.open() as stream:
            await stream.send_message(pb.Empty(), end=True)
            async for response in stream:
                self.devices = tuple(map(_listed, response.devices))
                await changed()

    async def _ask(self, method: UnaryUnaryMethod[Request, Answer], request: Request) -> Answer:
        if self._stopped:
            raise PluginError(f"endpoint {self._socket.name} has been stopped")
        try:
            return await method(request, timeout=_PATIENCE_S)
        except GRPCError as error:
            code = error.status.name.title().replace("_", "")
            raise PluginError(f"rpc error: code = {code} desc = {error.message}") from error
        except (OSError, StreamTerminatedError) as error:
            raise PluginError(f"rpc error: code = Unavailable desc = {error}") from error


def _listed(device: pb.Device) -> ListedDevice:
    hinted = device.HasField("topology")
    return ListedDevice(
        id=device.ID,
        healthy=device.health == "Healthy",
        numa=frozenset(node.ID for node in device.topology.nodes) if hinted else None,
    )
