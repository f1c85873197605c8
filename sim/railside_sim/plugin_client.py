"""The kubelet's side of one registered device plugin: dial, follow its list, ask it.

It answers for the calls and for the errors' text as the kubelet (Go) words them. It must not choose ids or know
of pods.
"""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.exceptions import GRPCError, StreamTerminatedError

from railside_proto.pb import deviceplugin_v1beta1_pb2 as pb
from railside_proto.pb.deviceplugin_v1beta1_grpc import DevicePluginStub
from railside_sim.ages import KUBELET_1_34, Age
from railside_sim.device import ListedDevice

_PATIENCE_S: Final = 30.0
"""The kubelet sets this deadline on PreStartContainer and none on the others; here it holds for all."""

Told = Callable[[tuple[ListedDevice, ...]], Awaitable[None]]
"""Takes each list of a plugin, whole."""

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class PluginError(Exception):
    """A plugin refused, hung or is gone; the text is the kubelet's. The caller makes an outcome of it."""


class PluginClient:
    """One plugin behind one socket. ``connect`` or ``dial`` first; ``follow`` runs until its stream ends."""

    def __init__(self, socket: Path, age: Age = KUBELET_1_34) -> None:
        self.socket = socket
        self._age = age
        self._channel = Channel(path=str(socket))
        self._stub = DevicePluginStub(self._channel)
        self._options = pb.DevicePluginOptions()
        self.stopped = False
        """Whether the kubelet has hung up; every later call is refused."""

    async def connect(self) -> None:
        """Asks for the options, as the kubelet does inside Register. Raises PluginError."""
        self._options = await self._ask(self._stub.GetDevicePluginOptions, pb.Empty())

    async def dial(self, options: pb.DevicePluginOptions) -> None:
        """Opens the connection alone: older kubelets take the options from Register. Raises OSError."""
        self._options = options
        await self._channel.__connect__()

    @property
    def is_told_of_starts(self) -> bool:
        """Whether the plugin wants PreStartContainer."""
        return self._options.pre_start_required

    async def follow(self, told: Told) -> None:
        """Hands on each list, until the stream ends for whatever reason."""
        with contextlib.suppress(GRPCError, StreamTerminatedError, OSError):
            async with self._stub.ListAndWatch.open() as stream:
                await stream.send_message(pb.Empty(), end=True)
                async for response in stream:
                    await told(tuple(map(_listed, response.devices)))

    async def preferred(
        self,
        available: Sequence[str],
        must_include: Sequence[str],
        count: int,
    ) -> frozenset[str]:
        """The ids that the plugin would choose; none where nobody asks or answers. Raises PluginError."""
        if not (self._age.asks_for_preference and self._options.get_preferred_allocation_available):
            return frozenset()
        wish = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available,
            must_include_deviceIDs=must_include,
            allocation_size=count,
        )
        request = pb.PreferredAllocationRequest(container_requests=[wish])
        try:
            answer = await self._ask(self._stub.GetPreferredAllocation, request)
        except PluginError as error:
            raise PluginError(f"device plugin GetPreferredAllocation rpc failed with err: {error}") from error
        return frozenset(chosen for each in answer.container_responses[:1] for chosen in each.deviceIDs)

    async def allocate(self, ids: Sequence[str]) -> pb.ContainerAllocateResponse:
        """The answer for one container; the first if there are more. Raises PluginError, also for none."""
        container = pb.ContainerAllocateRequest(devices_ids=ids)
        answer = await self._ask(self._stub.Allocate, pb.AllocateRequest(container_requests=[container]))
        if not answer.container_responses:
            raise PluginError("no containers return in allocation response")
        return answer.container_responses[0]

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Tells the plugin that a container starts. Raises PluginError."""
        try:
            await self._ask(self._stub.PreStartContainer, pb.PreStartContainerRequest(devices_ids=ids))
        except PluginError as error:
            raise PluginError(f"device plugin PreStartContainer rpc failed with err: {error}") from error

    def close(self) -> None:
        """Hangs up."""
        self.stopped = True
        self._channel.close()

    async def _ask(self, method: UnaryUnaryMethod[Request, Answer], request: Request) -> Answer:
        if self.stopped:
            raise PluginError(f"endpoint {self.socket.name} has been stopped")
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
