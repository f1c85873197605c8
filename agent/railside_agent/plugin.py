"""The device plugin service of one pool, as the kubelet calls it (v1beta1, over grpclib).

It must not decide anything: it reads requests, asks, and answers.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from railside_agent.binding import Bound, Refused
from railside_agent.container_edits import ContainerEdits
from railside_agent.kubelet_messages import allocate_answer, device_list
from railside_agent.preference import preferred
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

    async def deal(self, seats: tuple[str, ...]) -> ContainerEdits | Refused:
        """Answer Allocate. A refusal fails the pod for good."""

    async def start(self, seats: tuple[str, ...]) -> Bound | Refused:
        """Answer PreStartContainer."""


OPTIONS = pb.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
"""PreStartContainer decides which HCA a container gets, so it is always required."""


class DevicePlugin(DevicePluginBase):
    """Serves the kubelet until its server is closed."""

    def __init__(
        self,
        offer: Cell[Offer],
        starts: Starts,
        *,
        heard: Cell[float | None] | None = None,
        dealt: Callable[[tuple[str, ...]], None] = lambda _: None,
        preferred: Callable[[tuple[str, ...]], None] = lambda _: None,
    ) -> None:
        """List what ``offer`` holds; hand containers to ``starts``.

        ``dealt`` is told which seats were dealt, and ``preferred`` which ones we would rather have dealt.

        ``heard`` is set to the moment at which the kubelet opened the list that it follows.
        """
        self._offer = offer
        self._starts = starts
        self._heard: Cell[float | None] = heard or Cell(None)
        self._dealt = dealt
        self._preferred = preferred
        self._calls: Cell[int] = Cell(0)
        self.streams: Cell[int] = Cell(0)
        """How many ListAndWatch streams the kubelet holds open; 0 means that it does not listen to us."""

    @property
    def busy(self) -> bool:
        """Whether a call about a container is under way."""
        return self._calls.value > 0

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
        self._heard.set(time.monotonic())
        sent: pb.ListAndWatchResponse | None = None
        with _counted(self.streams):
            try:
                async for offer in self._offer.changes():
                    # The same list again is no news, and would cost the kubelet a write to its disk.
                    if (message := device_list(offer)) != sent:
                        await stream.send_message(message)
                    sent = message
            finally:
                if self.streams.value == 1:
                    # So that the first list of the next registration is one of a kubelet that has just come.
                    self._heard.set(None)

    async def GetPreferredAllocation(  # noqa: N802
        self, stream: "Stream[pb.PreferredAllocationRequest, pb.PreferredAllocationResponse]"
    ) -> None:
        """Say which of the seats at hand the kubelet should deal; it asks only where there is a choice."""
        request = await _received(stream)
        with _counted(self._calls):
            answers = [self._answered(one) for one in request.container_requests]
            await stream.send_message(pb.PreferredAllocationResponse(container_responses=answers))

    def _answered(self, asked: pb.ContainerPreferredAllocationRequest) -> pb.ContainerPreferredAllocationResponse:
        seats = preferred(asked.available_deviceIDs, asked.must_include_deviceIDs, asked.allocation_size)
        self._preferred(seats)
        return pb.ContainerPreferredAllocationResponse(deviceIDs=seats)

    async def Allocate(self, stream: "Stream[pb.AllocateRequest, pb.AllocateResponse]") -> None:  # noqa: N802
        """Answer for each container; an error fails the pod for good, and is left to who cannot serve it later."""
        request = await _received(stream)
        with _counted(self._calls):
            answers = [await self._allocated(tuple(one.devices_ids)) for one in request.container_requests]
            await stream.send_message(pb.AllocateResponse(container_responses=answers))

    async def _allocated(self, seats: tuple[str, ...]) -> pb.ContainerAllocateResponse:
        self._dealt(seats)
        return allocate_answer(_granted(await self._starts.deal(seats)))

    async def PreStartContainer(  # noqa: N802
        self, stream: "Stream[pb.PreStartContainerRequest, pb.PreStartContainerResponse]"
    ) -> None:
        """Let the container start, or fail with a sentence that the kubelet shows in the pod's status."""
        request = await _received(stream)
        with _counted(self._calls):
            _granted(await self._starts.start(tuple(request.devices_ids)))
            await stream.send_message(pb.PreStartContainerResponse())


@contextlib.contextmanager
def _counted(cell: Cell[int]) -> Iterator[None]:
    cell.set(cell.value + 1)
    try:
        yield
    finally:
        cell.set(cell.value - 1)


def _granted(outcome: Answer | Refused) -> Answer:
    """What is not refused. Raises GRPCError with the refusal's sentence."""
    if isinstance(outcome, Refused):
        raise GRPCError(Status.UNAVAILABLE, f"railside: {outcome.reason.sentence}")
    return outcome


async def _received(stream: "Stream[Request, Answer]") -> Request:
    request = await stream.recv_message()
    if request is None:
        raise GRPCError(Status.INVALID_ARGUMENT, "the call carried no message")
    return request
