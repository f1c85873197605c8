import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from grpclib.client import Stream
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from grpclib.testing import ChannelFor
from tests.unit.agent.situations import POOL, RULES, entry, listed, situation
from tests.unit.builders import hca, port

from railside_agent.binding import Bound, Refused
from railside_agent.container_edits import ContainerEdits, Style, edits
from railside_agent.plugin import DevicePlugin
from railside_agent.seats import Books, Offer, offer
from railside_proto.machine import PortState
from railside_proto.pb import deviceplugin_v1beta1_pb2 as pb
from railside_proto.pb.deviceplugin_v1beta1_grpc import DevicePluginStub
from railside_proto.reasons import Code, reason
from railside_runtime.cell import Cell

_BOOKS, _SOUND = offer(situation(hca(1), hca(2)), Books(), POOL, RULES)
_ILL = listed(situation(hca(1), hca(2, ports=(port(PortState.DOWN),))), books=_BOOKS)
_NO_LUCK = reason(Code.HCA_GONE, address="0000:01:00.0")


def _edits(seats: tuple[str, ...]) -> ContainerEdits:
    return edits(POOL, seats, Style(), virtual_topology=False)


_List = Stream[pb.Empty, pb.ListAndWatchResponse]


class _Starts:
    """Deals and starts unless a seat is called ``bad``."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.released = asyncio.Event()
        self.released.set()

    async def deal(self, seats: tuple[str, ...]) -> ContainerEdits | Refused:
        self.asked.set()
        await self.released.wait()
        return Refused(reason=_NO_LUCK) if "bad" in seats else _edits(seats)

    async def start(self, seats: tuple[str, ...]) -> Bound | Refused:
        return Refused(reason=_NO_LUCK) if "bad" in seats else Bound(seats=seats, hcas=())


@pytest.fixture
def cell() -> Cell[Offer]:
    return Cell(_SOUND)


@pytest.fixture
def starts() -> _Starts:
    return _Starts()


@pytest.fixture
def heard() -> Cell[float | None]:
    return Cell(None)


@pytest.fixture
def dealt() -> list[tuple[str, ...]]:
    return []


@pytest.fixture
def plugin(
    cell: Cell[Offer], starts: _Starts, heard: Cell[float | None], dealt: list[tuple[str, ...]]
) -> DevicePlugin:
    return DevicePlugin(cell, starts, heard=heard, dealt=dealt.append)


@pytest.fixture
async def kubelet(plugin: DevicePlugin) -> AsyncIterator[DevicePluginStub]:
    """The kubelet's side of the plugin."""
    async with ChannelFor([plugin]) as channel:
        yield DevicePluginStub(channel)


async def _next(stream: _List) -> list[tuple[str, str]]:
    answer = await stream.recv_message()
    assert answer is not None
    return [(device.ID, device.health) for device in answer.devices]


async def test_prestart_is_always_asked_for(kubelet: DevicePluginStub) -> None:
    """The options say that PreStartContainer must be called, and that preferences can be asked for."""
    options = await kubelet.GetDevicePluginOptions(pb.Empty())
    assert (options.pre_start_required, options.get_preferred_allocation_available) == (True, True)


async def test_every_new_stream_gets_the_whole_list_at_once(kubelet: DevicePluginStub) -> None:
    """A kubelet that comes again is told everything at once, without a change (B-DP-21)."""
    expected = [("n0-s0", "Healthy"), ("n0-s1", "Healthy")]
    for _ in range(3):
        async with kubelet.ListAndWatch.open() as stream:
            await stream.send_message(pb.Empty(), end=True)
            assert expected == await _next(stream)
            await stream.cancel()


async def test_a_change_is_told_to_every_stream(kubelet: DevicePluginStub, cell: Cell[Offer]) -> None:
    """An old stream swallows no update of a newer one (B-DP-21, B-DP-37)."""
    async with kubelet.ListAndWatch.open() as old, kubelet.ListAndWatch.open() as new:
        for stream in (old, new):
            await stream.send_message(pb.Empty(), end=True)
            await _next(stream)
        cell.set(_ILL)
        expected = [("n0-s0", "Healthy"), ("n0-s1", "Unhealthy")]
        assert [expected, expected] == [await _next(old), await _next(new)]
        await old.cancel()
        await new.cancel()


async def test_streams_are_counted(kubelet: DevicePluginStub, plugin: DevicePlugin) -> None:
    """Whether the kubelet listens is known, and that it does not any more (B-DP-25)."""
    async with kubelet.ListAndWatch.open() as stream:
        await stream.send_message(pb.Empty(), end=True)
        await _next(stream)
        listening = plugin.streams.value
        await stream.cancel()
    assert (listening, await plugin.streams.until(lambda count: count == 0)) == (1, 0)


async def test_allocate_answers_each_container(kubelet: DevicePluginStub) -> None:
    """Each container of a request gets an answer of its own, in order."""
    seats = [("n0-s0",), ("n0-s1", "n1-s0")]
    request = pb.AllocateRequest(
        container_requests=[pb.ContainerAllocateRequest(devices_ids=ids) for ids in seats]
    )
    answer = await kubelet.Allocate(request)
    expected = [_edits(ids).devices[0].host_path for ids in seats]
    assert expected == [one.devices[0].host_path for one in answer.container_responses]


async def test_a_container_may_start(kubelet: DevicePluginStub) -> None:
    """A start that is bound is answered without an error."""
    answer = await kubelet.PreStartContainer(pb.PreStartContainerRequest(devices_ids=["n0-s0"]))
    assert pb.PreStartContainerResponse() == answer


async def test_a_refusal_is_the_reasons_sentence(kubelet: DevicePluginStub) -> None:
    """The sentence reaches the kubelet word by word, as it shows it in the pod's status."""
    with pytest.raises(GRPCError) as error:
        await kubelet.PreStartContainer(pb.PreStartContainerRequest(devices_ids=["bad"]))
    assert (Status.UNAVAILABLE, f"railside: {_NO_LUCK.sentence}") == (error.value.status, error.value.message)


async def test_an_allocate_that_is_refused_is_the_reasons_sentence(kubelet: DevicePluginStub) -> None:
    """Where seats can never be served, the pod fails with the sentence."""
    request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=["bad"])])
    with pytest.raises(GRPCError) as error:
        await kubelet.Allocate(request)
    assert (Status.UNAVAILABLE, f"railside: {_NO_LUCK.sentence}") == (error.value.status, error.value.message)


async def test_who_is_dealt_what_is_told(kubelet: DevicePluginStub, dealt: list[tuple[str, ...]]) -> None:
    """The seats of each container are told when they are dealt, and a start deals none."""
    ids = [("n0-s0",), ("n0-s1", "n1-s0")]
    await kubelet.Allocate(
        pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=one) for one in ids])
    )
    await kubelet.PreStartContainer(pb.PreStartContainerRequest(devices_ids=["n0-s0"]))
    assert ids == dealt


async def test_preferences_are_answered(kubelet: DevicePluginStub) -> None:
    """Each container of a request gets seats of few zones, with those that it must have."""
    requests = [
        pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=["n0-s0", "n0-s1", "n1-s0"], must_include_deviceIDs=must, allocation_size=size
        )
        for must, size in (([], 1), (["n0-s1"], 2))
    ]
    answer = await kubelet.GetPreferredAllocation(pb.PreferredAllocationRequest(container_requests=requests))
    assert [list(one.deviceIDs) for one in answer.container_responses] == [["n1-s0"], ["n0-s1", "n0-s0"]]


async def test_a_list_that_has_ended_is_heard_by_nobody(
    kubelet: DevicePluginStub, heard: Cell[float | None]
) -> None:
    """When the kubelet has gone, what it took long ago says nothing of the one that comes next."""
    async with kubelet.ListAndWatch.open() as stream:
        await stream.send_message(pb.Empty(), end=True)
        await _next(stream)
        during = heard.value
        await stream.cancel()
    after = await heard.until(lambda moment: moment is None)
    assert (during is None, after) == (False, None)


async def test_a_second_list_that_ends_leaves_the_first_one_heard(
    kubelet: DevicePluginStub, heard: Cell[float | None]
) -> None:
    """As long as one list is open the kubelet listens, whoever else looked at it for a moment (law 3)."""
    async with kubelet.ListAndWatch.open() as first:
        await first.send_message(pb.Empty(), end=True)
        await _next(first)
        async with kubelet.ListAndWatch.open() as second:
            await second.send_message(pb.Empty(), end=True)
            await _next(second)
            await second.cancel()
        # Another call goes there and back: by then the plugin has seen the end.
        await kubelet.GetDevicePluginOptions(pb.Empty())
        await kubelet.GetDevicePluginOptions(pb.Empty())
        assert heard.value is not None
        await first.cancel()


async def test_when_the_list_was_opened_is_known(kubelet: DevicePluginStub, heard: Cell[float | None]) -> None:
    """Each stream that the kubelet opens is a registration that it follows from then on (law 8)."""
    moments = []
    for _ in range(2):
        async with kubelet.ListAndWatch.open() as stream:
            await stream.send_message(pb.Empty(), end=True)
            await _next(stream)
            moments.append(heard.value)
            await stream.cancel()
    assert None not in moments
    assert moments[0] < moments[1] <= time.monotonic()  # type: ignore[operator]


async def test_a_list_that_says_the_same_is_not_sent_again(kubelet: DevicePluginStub, cell: Cell[Offer]) -> None:
    """Who holds a seat is no news to the kubelet, and would cost it a write to its disk."""
    async with kubelet.ListAndWatch.open() as stream:
        await stream.send_message(pb.Empty(), end=True)
        first = await _next(stream)
        held = listed(situation(hca(1), hca(2), entries=[entry("p", "n0-s0")]))
        assert held != cell.value
        cell.set(held)
        # Another call goes there and back: by then the plugin has seen the change.
        await kubelet.GetDevicePluginOptions(pb.Empty())
        await kubelet.GetDevicePluginOptions(pb.Empty())
        cell.set(_ILL)
        assert (
            first,
            await _next(stream),
        ) == ([("n0-s0", "Healthy"), ("n0-s1", "Healthy")], [("n0-s0", "Healthy"), ("n0-s1", "Unhealthy")])
        await stream.cancel()


async def test_calls_under_way_are_known(kubelet: DevicePluginStub, plugin: DevicePlugin, starts: _Starts) -> None:
    """While an Allocate is in hand the plugin is busy, and it settles when that is answered (law 5)."""
    starts.released.clear()
    request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=["n0-s0"])])
    call = asyncio.create_task(kubelet.Allocate(request))
    await starts.asked.wait()
    busy = plugin.busy
    await plugin.settled(0.01)
    still_busy = plugin.busy
    starts.released.set()
    await call
    await plugin.settled(5.0)
    assert (busy, still_busy, plugin.busy) == (True, True, False)
