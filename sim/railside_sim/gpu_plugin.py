"""A stand-in for a GPU's device plugin: ids with NUMA nodes on a real socket, before a real or embedded kubelet.

It answers for what a kubelet sees of such a plugin, and keeps what it was asked. It must not know of any machine:
ids, nodes and which GPUs belong together are given.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from grpclib.client import Channel

from railside_proto import names
from railside_proto.pb import deviceplugin_v1beta1_pb2 as pb
from railside_proto.pb.deviceplugin_v1beta1_grpc import DevicePluginBase, RegistrationStub
from railside_sim.grpc_server import MortalServer

if TYPE_CHECKING:
    from grpclib.server import Stream

_VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
_DEV: Final = "/dev/"
_REGISTER_S: Final = 15.0
"""The real kubelet may take 10 s to say that it cannot dial back."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One call of the kubelet's: ``preferred``, ``allocate`` or ``start``, with ids sorted."""

    call: str
    ids: tuple[str, ...]
    must_include: tuple[str, ...] = ()
    size: int = 0


Nodes = int | tuple[int, ...] | None
"""The NUMA node of an id, several, or no TopologyInfo at all."""

Preference = Callable[[Asked], Collection[str]]
"""Answers a GetPreferredAllocation."""


def together(groups: Mapping[str, str]) -> Preference:
    """Like NVIDIA's aligned policy, which keeps GPUs together that are near each other: here, of one group.

    Takes the group that fits with the least left over; where none does, the fullest first.
    """

    def prefer(asked: Asked) -> Collection[str]:
        chosen = list(asked.must_include)
        free = [device for device in asked.ids if device not in chosen]
        while free and len(chosen) < asked.size:
            missing = asked.size - len(chosen)
            sizes = Counter(groups.get(device, "") for device in free)
            best = min(sizes, key=lambda group: (sizes[group] < missing, abs(sizes[group] - missing), group))
            taken = [device for device in free if groups.get(device, "") == best][:missing]
            chosen += taken
            free = [device for device in free if device not in taken]
        return chosen

    return prefer


async def _at_once() -> None:
    """Holds up nothing."""


class GpuPlugin(DevicePluginBase):
    """Offers ``gpus`` (NUMA nodes by id) in ``folder``, the kubelet's folder of sockets.

    Without a ``preference`` it leaves the choice to the kubelet, which makes it at random inside a NUMA node.
    """

    def __init__(
        self,
        folder: Path,
        gpus: Mapping[str, Nodes],
        *,
        resource: str = names.GPU_RESOURCE,
        preference: Preference | None = None,
        pre_start: bool = False,
        socket: str = "",
    ) -> None:
        self.asked: list[Asked] = []
        self.variable = _VISIBLE
        """Names the ids in a container's environment; without a name nothing does."""
        self.envs: dict[str, str] = {}
        """What an Allocate answers beside that."""
        self.nodes: dict[str, tuple[str, ...]] = {}
        """Device nodes of the host that an Allocate hands over, by id: so plain plugins of other devices do."""
        self.before_answer: Callable[[], Awaitable[None]] = _at_once
        """Awaited in each Allocate, after the call has been noted."""
        self.before_preference: Callable[[], Awaitable[None]] = _at_once
        """The same in each GetPreferredAllocation."""
        self._folder = folder
        self._socket = folder / (socket or f"{resource.replace('/', '-')}.sock")
        self._resource = resource
        self._preference = preference
        self._options = pb.DevicePluginOptions(
            pre_start_required=pre_start,
            get_preferred_allocation_available=preference is not None,
        )
        self._gpus = dict(gpus)
        self._sick: frozenset[str] = frozenset()
        self._changes = asyncio.Condition()
        self._server = MortalServer([self])

    async def serve_and_register(self) -> None:
        """Listens on its socket, which must not be taken, and registers. Raises OSError, GRPCError."""
        self._server = MortalServer([self])
        await self._server.serve(self._socket)
        await self.register()

    async def register(self) -> None:
        """Registers, served or not. Raises OSError, GRPCError."""
        request = pb.RegisterRequest(
            version=names.DEVICE_PLUGIN_API,
            endpoint=self._socket.name,
            resource_name=self._resource,
            options=self._options,
        )
        async with Channel(path=str(self._folder / names.KUBELET_SOCKET)) as channel:
            await RegistrationStub(channel).Register(request, timeout=_REGISTER_S)

    async def end(self) -> None:
        """Ends as a process does, and leaves its socket's file to nobody."""
        await self._server.end()
        self._socket.unlink(missing_ok=True)

    async def tell(self, gpus: Mapping[str, Nodes], *, sick: Collection[str] = ()) -> None:
        """Offers ``gpus`` from now on, those of ``sick`` as Unhealthy."""
        self._gpus, self._sick = dict(gpus), frozenset(sick)
        await self.resend()

    async def resend(self) -> None:
        """Sends the list once more, as it is."""
        async with self._changes:
            self._changes.notify_all()

    async def GetDevicePluginOptions(  # noqa: N802 - the wire's name
        self, stream: "Stream[pb.Empty, pb.DevicePluginOptions]"
    ) -> None:
        """What it wants to be asked."""
        await stream.recv_message()
        await stream.send_message(self._options)

    async def ListAndWatch(  # noqa: N802 - the wire's name
        self, stream: "Stream[pb.Empty, pb.ListAndWatchResponse]"
    ) -> None:
        """The list, and again at each change."""
        await stream.recv_message()
        while True:
            devices = [self._device(device, nodes) for device, nodes in self._gpus.items()]
            async with self._changes:
                await stream.send_message(pb.ListAndWatchResponse(devices=devices))
                await self._changes.wait()

    async def GetPreferredAllocation(  # noqa: N802 - the wire's name
        self, stream: "Stream[pb.PreferredAllocationRequest, pb.PreferredAllocationResponse]"
    ) -> None:
        """Its preference."""
        request = await stream.recv_message() or pb.PreferredAllocationRequest()
        answers = [self._preferred(container) for container in request.container_requests]
        await self.before_preference()
        await stream.send_message(pb.PreferredAllocationResponse(container_responses=answers))

    async def Allocate(  # noqa: N802 - the wire's name
        self, stream: "Stream[pb.AllocateRequest, pb.AllocateResponse]"
    ) -> None:
        """The environment by which NVIDIA's runtime learns of the GPUs."""
        request = await stream.recv_message() or pb.AllocateRequest()
        kept = [self._keep("allocate", container.devices_ids).ids for container in request.container_requests]
        await self.before_answer()
        await stream.send_message(pb.AllocateResponse(container_responses=map(self._answer, kept)))

    async def PreStartContainer(  # noqa: N802 - the wire's name
        self, stream: "Stream[pb.PreStartContainerRequest, pb.PreStartContainerResponse]"
    ) -> None:
        """Lets the container start."""
        request = await stream.recv_message() or pb.PreStartContainerRequest()
        self._keep("start", request.devices_ids)
        await stream.send_message(pb.PreStartContainerResponse())

    def _preferred(
        self, container: pb.ContainerPreferredAllocationRequest
    ) -> pb.ContainerPreferredAllocationResponse:
        asked = Asked(
            call="preferred",
            ids=tuple(sorted(container.available_deviceIDs)),
            must_include=tuple(sorted(container.must_include_deviceIDs)),
            size=container.allocation_size,
        )
        self.asked.append(asked)
        chosen = self._preference(asked) if self._preference is not None else ()
        return pb.ContainerPreferredAllocationResponse(deviceIDs=chosen)

    def _answer(self, ids: Collection[str]) -> pb.ContainerAllocateResponse:
        paths = dict.fromkeys(path for device in ids for path in self.nodes.get(device, ()))
        return pb.ContainerAllocateResponse(
            envs={**({self.variable: ",".join(ids)} if self.variable else {}), **self.envs},
            devices=[
                pb.DeviceSpec(host_path=path, container_path=_inside(path), permissions="rw") for path in paths
            ],
        )

    def _keep(self, call: str, ids: Collection[str]) -> Asked:
        self.asked.append(Asked(call=call, ids=tuple(sorted(ids))))
        return self.asked[-1]

    def _device(self, device: str, nodes: Nodes) -> pb.Device:
        topology = (
            None if nodes is None else pb.TopologyInfo(nodes=[pb.NUMANode(ID=node) for node in _each(nodes)])
        )
        return pb.Device(ID=device, health="Unhealthy" if device in self._sick else "Healthy", topology=topology)


def _each(nodes: int | tuple[int, ...]) -> tuple[int, ...]:
    return nodes if isinstance(nodes, tuple) else (nodes,)


def _inside(path: str) -> str:
    """A node stands in the container where it stands on the host, which may be a folder that plays one."""
    return _DEV + path.partition(_DEV)[2]
