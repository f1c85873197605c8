"""The device plugin service of one pool, as the kubelet calls it (v1beta1, over grpclib).

It must not decide anything: it reads requests, asks, and answers.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from railside_agent.binding import Bound, Refused
from railside_agent.container_edits import ContainerEdits
from railside_agent.kubelet_messages import allocate_answer, device_list
from railside_agent.seats import Offer
from railside_proto.pb import deviceplugin_v1beta1_pb2 as pb
from railside_proto.pb.deviceplugin_v1beta1_grpc import DevicePluginBase
from railside_runtime.cell import Cell

if TYPE_CHECKING:
    from grpclib.server import Stream

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class Starts(Protocol):
    """Who serves containers on their way."""

    async def deal(self, seats: tuple[str, ...]) -> ContainerEdits:
        """Answer Allocate."""

    async def start(self, seats: tuple[str, ...]) -> Bound | Refused:
        """Answer PreStartContainer."""


OPTIONS = pb.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=False)
"""PreStartContainer decides which HCA a container gets, so it is always required."""


class DevicePlugin(DevicePluginBase):
    """Serves the kubelet until its server is closed."""

    def __init__(self, offer: Cell[Offer], starts: Starts) -> None:
        """List what ``offer`` holds; hand containers to ``starts``."""
        self._offer = offer
        self._starts = starts
        self._calls: Cell[int] = Cell(0)
        self.streams: Cell[int] = Cell(0)
        """How many ListAndWatch streams the kubelet holds open; 0 means that it does not listen to us."""

    async def settled(self, patience_seconds: float) -> None:
        """Return when no call about a container is under way, or after a while: one that is cut fails its pod."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_seconds):
                await self._calls.until(lambda calls: calls == 0)

    async def GetDevicePluginOptions(self, stream: "Stream[pb.Empty, pb.DevicePluginOptions]") -> None:  # noqa: N802
        """Say that PreStartContainer must be called."""
        await stream.recv_message()
        await stream.send_message(OPTIONS)

    async def ListAndWatch(self, stream: "Stream[pb.Empty, pb.ListAndWatchResponse]") -> None:  # noqa: N802
        """Send the whole list at once, and again at each change, until the kubelet or the server goes."""
        await stream.recv_message()
        with _counted(self.streams):
            async for offer in self._offer.changes():
                await stream.send_message(device_list(offer))

    async def GetPreferredAllocation(  # noqa: N802
        self, _stream: "Stream[pb.PreferredAllocationRequest, pb.PreferredAllocationResponse]"
    ) -> None:
        """Not offered by the options, so the kubelet does not ask: in ib-shared one seat is as good as another."""
        raise GRPCError(Status.UNIMPLEMENTED, "this plugin has no preference")

    async def Allocate(self, stream: "Stream[pb.AllocateRequest, pb.AllocateResponse]") -> None:  # noqa: N802
        """Answer for each container; never an error, as that would fail the pod for good."""
        request = await _received(stream)
        with _counted(self._calls):
            edits = [await self._starts.deal(tuple(one.devices_ids)) for one in request.container_requests]
            await stream.send_message(pb.AllocateResponse(container_responses=map(allocate_answer, edits)))

    async def PreStartContainer(  # noqa: N802
        self, stream: "Stream[pb.PreStartContainerRequest, pb.PreStartContainerResponse]"
    ) -> None:
        """Let the container start, or fail with a sentence that the kubelet shows in the pod's status."""
        request = await _received(stream)
        with _counted(self._calls):
            outcome = await self._starts.start(tuple(request.devices_ids))
            if isinstance(outcome, Refused):
                raise GRPCError(Status.UNAVAILABLE, f"railside: {outcome.reason.sentence}")
            await stream.send_message(pb.PreStartContainerResponse())


@contextlib.contextmanager
def _counted(cell: Cell[int]) -> Iterator[None]:
    cell.set(cell.value + 1)
    try:
        yield
    finally:
        cell.set(cell.value - 1)


async def _received(stream: "Stream[Request, Answer]") -> Request:
    request = await stream.recv_message()
    if request is None:
        raise GRPCError(Status.INVALID_ARGUMENT, "the call carried no message")
    return request
