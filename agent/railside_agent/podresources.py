"""Asks the kubelet from time to time who holds what and what it could give: a cross-check of the checkpoint.

It must not ask who holds what while a call of the kubelet to us is in flight, nor soon behind one, nor often. At
each List the kubelet drops what ended pods held and, with it, what is just being dealt, by any plugin: it then
deals that again (pkg/kubelet/cm/devicemanager, UpdateAllocatedDevices). Nor must it take a kubelet that does not
answer for one whose pods hold nothing, or one that is too old for a question for one that fails.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Never

from grpclib.client import Channel
from grpclib.const import Status
from grpclib.encoding.proto import ProtoCodec
from grpclib.exceptions import GRPCError
from structlog.typing import FilteringBoundLogger

from railside_agent.pod_resources import Allocatable, NodeHoldings, allocatable, holdings
from railside_proto.names import KUBELET_SOCKET, POD_RESOURCES
from railside_proto.pb import podresources_v1_pb2 as pb
from railside_proto.pb.podresources_v1_grpc import PodResourcesListerStub
from railside_proto.reasons import Code, Reason, reason
from railside_runtime.cell import Cell
from railside_runtime.words import words_of

if TYPE_CHECKING:
    from grpclib._typing import IProtoMessage

LEAST_PAUSE_SECONDS: Final = 30.0
"""Between two askings, those that failed included."""

CALM_SECONDS: Final = 1.0
"""How long none of our calls must have been in flight: the kubelet deals a container one resource after the other,
and of the calls to other plugins we know nothing."""

CALM_POLL_SECONDS: Final = 0.1

PLACES_PAUSE_SECONDS: Final = 2.0
"""Between two questions for what could be given alone, which drop nothing."""

CALL_DEADLINE_SECONDS: Final = 5.0

LARGEST_ANSWER_BYTES: Final = 1 << 24
"""As the kubelet's own client takes."""


class PodResources:
    """The kubelet's account of its devices."""

    def __init__(
        self,
        kubelet_dir: Path,
        log: FilteringBoundLogger,
        *,
        busy: Callable[[], bool],
        pause_seconds: float = LEAST_PAUSE_SECONDS,
        deadline_seconds: float = CALL_DEADLINE_SECONDS,
        largest_bytes: int = LARGEST_ANSWER_BYTES,
    ) -> None:
        """Ask the kubelet of ``kubelet_dir``; ``busy`` says whether a call of the kubelet to us is in flight."""
        self._socket = kubelet_dir / POD_RESOURCES / KUBELET_SOCKET
        self._log = log
        self._busy = busy
        self._pause_seconds = max(pause_seconds, LEAST_PAUSE_SECONDS)
        self._deadline_seconds = deadline_seconds
        self._codec = _BoundedCodec(largest_bytes)
        self._unplaced = asyncio.Event()
        self.latest: Cell[NodeHoldings | None] = Cell(None)
        """The last answer that says anything; None until the kubelet has said something."""
        self.problem: Cell[str | None] = Cell(None)
        """Why the last asking gave nothing; None while it gives something, or cannot."""
        self.lacks: Cell[tuple[Reason, ...]] = Cell(())
        """What this kubelet cannot tell, by its last answers."""

    def look_for_places(self) -> None:
        """Ask soon what could be given, as there are devices whose places are not known. Returns at once."""
        self._unplaced.set()

    async def run(self) -> Never:
        """Ask again and again, when it is calm, never more often than the least pause allows.

        As often as that where the last asking gave nothing: a kubelet that restarts would be unknown for long.
        """
        while True:
            await self._calm()
            self._say(problem := await self._problem_of(self._ask))
            pause = self._pause_seconds if problem is None else LEAST_PAUSE_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._answer_for_places()

    async def _answer_for_places(self) -> Never:
        while True:
            await self._unplaced.wait()
            self._unplaced.clear()
            # What goes wrong here goes wrong with the next whole question, too, and is told there.
            await self._problem_of(self._ask_for_places)
            await asyncio.sleep(PLACES_PAUSE_SECONDS)

    async def _calm(self) -> None:
        loop = asyncio.get_running_loop()
        since = loop.time()
        while loop.time() - since < CALM_SECONDS:
            await asyncio.sleep(CALM_POLL_SECONDS)
            since = loop.time() if self._busy() else since

    async def _problem_of(self, ask: Callable[[], Awaitable[str | None]]) -> str | None:
        try:
            async with asyncio.timeout(self._deadline_seconds):
                return await ask()
        except TimeoutError:
            return f"the kubelet did not answer within {self._deadline_seconds:g} s"
        except GRPCError as error:
            return f"the kubelet refused: {error.message}"
        except Exception as error:  # noqa: BLE001 -- whatever sits on that socket must not end the agent
            return f"the kubelet did not answer: {words_of(error)}"

    async def _ask(self) -> str | None:
        async with Channel(path=str(self._socket), codec=self._codec) as channel:
            stub = PodResourcesListerStub(channel)
            can_give = await _allocatable(stub)
            # A call may have come meanwhile. List is the one that does harm; the pause makes up for it.
            if self._busy():
                return "a container was being dealt its devices"
            listed = await _listed(stub)
        self.lacks.set(tuple(one for one in (listed, can_give) if isinstance(one, Reason)))
        if isinstance(listed, Reason):
            return None
        containers = holdings(listed)
        if containers is None:
            return "the kubelet lists no pod at all: it has just started"
        allocatable = None if isinstance(can_give, Reason) else can_give
        self.latest.set(NodeHoldings(containers=containers, allocatable=allocatable))
        return None

    async def _ask_for_places(self) -> str | None:
        async with Channel(path=str(self._socket), codec=self._codec) as channel:
            can_give = await _allocatable(PodResourcesListerStub(channel))
        if not isinstance(can_give, Reason):
            containers = self.latest.value.containers if self.latest.value else ()
            self.latest.set(NodeHoldings(containers=containers, allocatable=can_give))
        return None

    def _say(self, problem: str | None) -> None:
        # The same answer to the next asking is no news.
        if problem is not None and problem != self.problem.value:
            self._log.info("the kubelet does not say who holds what", detail=problem)
        self.problem.set(problem)


async def _listed(stub: PodResourcesListerStub) -> pb.ListPodResourcesResponse | Reason:
    try:
        return await stub.List(pb.ListPodResourcesRequest())
    except GRPCError as error:
        if error.status is not Status.UNIMPLEMENTED:
            raise
        return reason(Code.HOLDERS_NOT_TOLD, detail=error.message or error.status.name)


async def _allocatable(stub: PodResourcesListerStub) -> Allocatable | Reason:
    """What it could give; 1.21 and 1.22 know the question and refuse it, unless told otherwise."""
    try:
        return allocatable(await stub.GetAllocatableResources(pb.AllocatableResourcesRequest()))
    except GRPCError as error:
        return reason(Code.ALLOCATABLE_NOT_TOLD, detail=error.message or error.status.name)


class _BoundedCodec(ProtoCodec):
    """Understands no answer beyond a size: unpacked it takes many times as much memory."""

    def __init__(self, largest_bytes: int) -> None:
        self._largest_bytes = largest_bytes

    def decode(self, data: bytes, message_type: "type[IProtoMessage]") -> "IProtoMessage":
        if len(data) > self._largest_bytes:
            raise ValueError(f"its answer has {len(data)} bytes; expected are {self._largest_bytes} at most")
        return super().decode(data, message_type)
