import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from grpclib import GRPCError, Status
from tests.unit.builders import LogLines
from tests.unit.running import running

from railside_agent.pod_resources import NodeHoldings
from railside_agent.podresources import CALM_SECONDS, LEAST_PAUSE_SECONDS, PLACES_PAUSE_SECONDS, PodResources
from railside_proto.names import KUBELET_SOCKET, POD_RESOURCES
from railside_proto.pb import podresources_v1_pb2 as pb
from railside_proto.pb.podresources_v1_grpc import PodResourcesListerBase
from railside_proto.reasons import Code, reason
from railside_sim.grpc_server import MortalServer

if TYPE_CHECKING:
    import grpclib.server

_TOO_LONG_SECONDS = 10 * LEAST_PAUSE_SECONDS
_NOT_SAID = ["the kubelet does not say who holds what"]


class _Kubelet(PodResourcesListerBase):
    """Says that one pod runs, unless told otherwise, and notes when it was asked."""

    def __init__(self) -> None:
        self.answer = pb.ListPodResourcesResponse(pod_resources=[pb.PodResources(name="agent")])
        self.old = False
        self.hangs = False
        self.refuses: GRPCError | None = None
        self.lists: list[float] = []
        self.questions: list[float] = []
        """When it was asked what it could give."""
        self.cpus = [1]
        self.asked = asyncio.Event()
        self.deals_meanwhile: _Calls | None = None

    async def List(  # noqa: N802 -- the kubelet's name
        self,
        stream: "grpclib.server.Stream[pb.ListPodResourcesRequest, pb.ListPodResourcesResponse]",
    ) -> None:
        await stream.recv_message()
        self.lists.append(asyncio.get_running_loop().time())
        self.asked.set()
        if self.refuses:
            raise self.refuses
        if self.hangs:
            await asyncio.Event().wait()
        await stream.send_message(self.answer)

    async def GetAllocatableResources(  # noqa: N802 -- the kubelet's name
        self,
        stream: "grpclib.server.Stream[pb.AllocatableResourcesRequest, pb.AllocatableResourcesResponse]",
    ) -> None:
        await stream.recv_message()
        self.questions.append(asyncio.get_running_loop().time())
        if self.deals_meanwhile is not None:
            self.deals_meanwhile.in_flight = True
        if self.old:
            raise GRPCError(Status.UNIMPLEMENTED)
        await stream.send_message(pb.AllocatableResourcesResponse(cpu_ids=self.cpus))

    async def Get(  # noqa: N802 -- the kubelet's name
        self, stream: "grpclib.server.Stream[pb.GetPodResourcesRequest, pb.GetPodResourcesResponse]"
    ) -> None:
        await stream.recv_message()
        raise GRPCError(Status.UNIMPLEMENTED)


class _Calls:
    """Says whether a call is in flight."""

    def __init__(self) -> None:
        self.in_flight = False

    def __call__(self) -> bool:
        return self.in_flight


@pytest.fixture
async def kubelet(kubelet_dir: Path) -> AsyncIterator[_Kubelet]:
    handler = _Kubelet()
    server = MortalServer([handler])
    (kubelet_dir / POD_RESOURCES).mkdir()
    await server.serve(kubelet_dir / POD_RESOURCES / KUBELET_SOCKET)
    yield handler
    await server.end()


@pytest.fixture
def calls() -> _Calls:
    return _Calls()


@pytest.fixture
def resources(kubelet_dir: Path, calls: _Calls, written: LogLines) -> PodResources:
    return PodResources(kubelet_dir, written.log, busy=calls, largest_bytes=1000)


async def _problem(resources: PodResources) -> str:
    problem = await resources.problem.until(lambda problem: problem is not None)
    assert problem is not None
    return problem


@pytest.mark.looptime
async def test_what_the_kubelet_says_is_told(kubelet: _Kubelet, resources: PodResources) -> None:
    """Both answers are there together once the kubelet has said both."""
    async with running(resources), asyncio.timeout(_TOO_LONG_SECONDS):
        said = await resources.latest.until(lambda said: said is not None)
    assert said is not None
    assert (said.containers, said.allocatable is not None and said.allocatable.cpus) == ((), (1,))
    assert len(kubelet.lists) == 1


@pytest.mark.looptime
@pytest.mark.parametrize("pause_seconds", [LEAST_PAUSE_SECONDS, 1])
async def test_it_is_asked_seldom(
    kubelet: _Kubelet, kubelet_dir: Path, written: LogLines, pause_seconds: float
) -> None:
    """Between two Lists lie thirty seconds at least, also where less is asked for (law 5)."""
    resources = PodResources(kubelet_dir, written.log, busy=_Calls(), pause_seconds=pause_seconds)
    async with running(resources), asyncio.timeout(_TOO_LONG_SECONDS):
        while len(kubelet.lists) < 3:
            kubelet.asked.clear()
            await kubelet.asked.wait()
    first, second, third = kubelet.lists
    assert min(second - first, third - second) >= LEAST_PAUSE_SECONDS


@pytest.mark.looptime
async def test_places_are_asked_for_at_once(kubelet: _Kubelet, resources: PodResources, calls: _Calls) -> None:
    """What could be given is asked between two Lists, also while a container is being dealt: it drops nothing."""
    async with running(resources), asyncio.timeout(_TOO_LONG_SECONDS):
        before = await resources.latest.until(lambda said: said is not None)
        kubelet.cpus, calls.in_flight = [1, 2], True
        resources.look_for_places()
        after = await resources.latest.until(lambda said: said != before)
    assert before is not None
    assert after is not None
    assert (after.containers, after.allocatable is not None and after.allocatable.cpus) == (
        before.containers,
        (1, 2),
    )
    assert (len(kubelet.lists), len(kubelet.questions)) == (1, 2)
    assert kubelet.questions[1] - kubelet.questions[0] < 1


@pytest.mark.looptime
async def test_places_are_asked_for_before_anything_was_listed(kubelet: _Kubelet, resources: PodResources) -> None:
    """A kubelet that tells of no pod yet may know GPUs all the same; that is an account without containers."""
    kubelet.answer = pb.ListPodResourcesResponse()
    async with running(resources), asyncio.timeout(_TOO_LONG_SECONDS):
        await _problem(resources)
        resources.look_for_places()
        said = await resources.latest.until(lambda said: said is not None)
    assert said is not None
    assert (said.containers, said.allocatable is not None) == ((), True)


@pytest.mark.looptime
async def test_a_storm_of_signs_asks_seldom(kubelet: _Kubelet, resources: PodResources) -> None:
    """A plugin that registers GPU by GPU costs a question each two seconds."""
    async with running(resources):
        await resources.latest.until(lambda said: said is not None)
        for _ in range(200):
            resources.look_for_places()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await asyncio.Event().wait()
    assert 5 <= len(kubelet.questions) <= 20 / PLACES_PAUSE_SECONDS + 2


@pytest.mark.looptime
async def test_a_question_for_places_that_fails_is_left(
    kubelet: _Kubelet, resources: PodResources, written: LogLines
) -> None:
    """An old kubelet, which refuses, leaves what was known, and is no news."""
    async with running(resources), asyncio.timeout(_TOO_LONG_SECONDS):
        before = await resources.latest.until(lambda said: said is not None)
        kubelet.old = True
        resources.look_for_places()
        while len(kubelet.questions) < 3:
            kubelet.asked.clear()
            await kubelet.asked.wait()
        assert resources.latest.value is not None
    assert before is not None
    assert written.events == []


@pytest.mark.looptime
async def test_an_asking_that_gave_nothing_is_soon_made_up_for(
    kubelet: _Kubelet, kubelet_dir: Path, written: LogLines
) -> None:
    """A kubelet that has just started is asked again after the least pause, and then as seldom as is set."""
    resources = PodResources(kubelet_dir, written.log, busy=_Calls(), pause_seconds=5 * LEAST_PAUSE_SECONDS)
    kubelet.answer = pb.ListPodResourcesResponse()
    async with running(resources), asyncio.timeout(_TOO_LONG_SECONDS):
        await _problem(resources)
        kubelet.answer = pb.ListPodResourcesResponse(pod_resources=[pb.PodResources(name="agent")])
        while len(kubelet.lists) < 3:
            kubelet.asked.clear()
            await kubelet.asked.wait()
    first, second, third = kubelet.lists
    assert LEAST_PAUSE_SECONDS <= second - first < 2 * LEAST_PAUSE_SECONDS
    assert third - second >= 5 * LEAST_PAUSE_SECONDS


@pytest.mark.looptime
async def test_it_is_never_asked_while_a_container_is_being_dealt(
    kubelet: _Kubelet, resources: PodResources, calls: _Calls
) -> None:
    """While one of our calls is in flight, and for a moment behind it, nobody is asked (law 5)."""
    calls.in_flight = True
    loop = asyncio.get_running_loop()

    def end() -> None:
        calls.in_flight = False

    loop.call_later(100, end)
    started = loop.time()
    async with running(resources), asyncio.timeout(_TOO_LONG_SECONDS):
        await resources.latest.until(lambda said: said is not None)
    waited = kubelet.lists[0] - started
    assert 100 + CALM_SECONDS - 0.2 <= waited <= 100 + CALM_SECONDS + 0.2


@pytest.mark.looptime
async def test_a_call_that_comes_in_between_puts_it_off(
    kubelet: _Kubelet, resources: PodResources, calls: _Calls
) -> None:
    """It is looked once more right before the List, which is the one that does harm (law 5)."""
    kubelet.deals_meanwhile = calls
    async with running(resources), asyncio.timeout(_TOO_LONG_SECONDS):
        assert await _problem(resources) == "a container was being dealt its devices"
    assert kubelet.lists == []


@pytest.mark.looptime
async def test_an_empty_answer_says_nothing(kubelet: _Kubelet, resources: PodResources, written: LogLines) -> None:
    """Right after its start the kubelet lists no pod: what was known stays, and is not nothing (law 6)."""
    known = NodeHoldings(containers=(), allocatable=None)
    resources.latest.set(known)
    kubelet.answer = pb.ListPodResourcesResponse()
    async with running(resources), asyncio.timeout(_TOO_LONG_SECONDS):
        assert await _problem(resources) == "the kubelet lists no pod at all: it has just started"
    assert (known, written.events) == (resources.latest.value, _NOT_SAID)


@pytest.mark.looptime
async def test_a_kubelet_that_is_too_old_says_the_half(kubelet: _Kubelet, resources: PodResources) -> None:
    """Who holds what is told by a kubelet that cannot say what it could give, and that is told too."""
    kubelet.old = True
    async with running(resources), asyncio.timeout(_TOO_LONG_SECONDS):
        said = await resources.latest.until(lambda said: said is not None)
    assert said == NodeHoldings(containers=(), allocatable=None)
    assert resources.lacks.value == (reason(Code.ALLOCATABLE_NOT_TOLD, detail="UNIMPLEMENTED"),)


@pytest.mark.looptime
async def test_a_kubelet_that_is_older_still_fails_at_nothing(
    kubelet: _Kubelet, resources: PodResources, written: LogLines
) -> None:
    """One that knows no List has no problem but lacks it; a younger one in its place lacks nothing."""
    kubelet.refuses = GRPCError(Status.UNIMPLEMENTED, "unknown service")
    async with running(resources), asyncio.timeout(_TOO_LONG_SECONDS):
        lacks = await resources.lacks.until(bool)
        assert lacks == (reason(Code.HOLDERS_NOT_TOLD, detail="unknown service"),)
        assert (resources.problem.value, resources.latest.value, written.events) == (None, None, [])
        kubelet.refuses = None
        await resources.lacks.until(lambda lacks: not lacks)
    assert resources.latest.value is not None


@pytest.mark.looptime
async def test_a_refusal_of_another_kind_is_a_problem(kubelet: _Kubelet, resources: PodResources) -> None:
    """A kubelet that knows the question and fails at it lacks nothing."""
    kubelet.refuses = GRPCError(Status.UNAVAILABLE, "not now")
    async with running(resources), asyncio.timeout(_TOO_LONG_SECONDS):
        assert await _problem(resources) == "the kubelet refused: not now"
    assert resources.lacks.value == ()


@pytest.mark.looptime
async def test_a_kubelet_that_hangs_is_left(kubelet: _Kubelet, resources: PodResources) -> None:
    """An answer that does not come within the deadline is none, and it is asked again later."""
    kubelet.hangs = True
    async with running(resources), asyncio.timeout(_TOO_LONG_SECONDS):
        assert await _problem(resources) == "the kubelet did not answer within 5 s"
        kubelet.hangs = False
        await resources.problem.until(lambda problem: problem is None)
    assert len(kubelet.lists) == 2


@pytest.mark.looptime
async def test_a_huge_answer_is_not_understood(kubelet: _Kubelet, resources: PodResources) -> None:
    """An answer beyond the limit is refused before it takes many times its size."""
    kubelet.answer.pod_resources[0].name = "a" * 1000
    async with running(resources), asyncio.timeout(_TOO_LONG_SECONDS):
        assert "expected are 1000 at most" in await _problem(resources)


@pytest.mark.looptime
async def test_without_a_kubelet_it_is_told_once(resources: PodResources, written: LogLines) -> None:
    """A missing socket is one line in the log, however often it is tried."""
    async with running(resources), asyncio.timeout(_TOO_LONG_SECONDS):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 5 * LEAST_PAUSE_SECONDS)
    assert "No such file" in str(resources.problem.value)
    assert written.events == _NOT_SAID
