from collections.abc import AsyncIterator

import pytest
from grpclib.client import Stream
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from grpclib.testing import ChannelFor
from tests.unit.builders import hca, machine, port

from railside_agent.binding import Bound, Refused
from railside_agent.container_edits import ContainerEdits, edits
from railside_agent.plugin import DevicePlugin
from railside_agent.seats import Offer, offer
from railside_proto.machine import PortState
from railside_proto.pb import deviceplugin_v1beta1_pb2 as pb
from railside_proto.pb.deviceplugin_v1beta1_grpc import DevicePluginStub
from railside_proto.pool import Pool
from railside_proto.reasons import Code, reason
from railside_runtime.cell import Cell

_SOUND = offer(machine(hca(1), hca(2)), Pool())
_ILL = offer(machine(hca(1), hca(2, ports=(port(PortState.DOWN),))), Pool(), _SOUND)
_NO_LUCK = reason(Code.HCA_GONE, address="0000:01:00.0")

_List = Stream[pb.Empty, pb.ListAndWatchResponse]


class _Starts:
    """Deals what is asked, and starts unless a seat is called ``bad``."""

    async def deal(self, seats: tuple[str, ...]) -> ContainerEdits:
        return edits(Pool(), seats, "", virtual_topology=False)

    async def start(self, seats: tuple[str, ...]) -> Bound | Refused:
        return Refused(reason=_NO_LUCK) if "bad" in seats else Bound(seats=seats, hcas=())


@pytest.fixture
def cell() -> Cell[Offer]:
    return Cell(_SOUND)


@pytest.fixture
def plugin(cell: Cell[Offer]) -> DevicePlugin:
    return DevicePlugin(cell, _Starts())


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
    """The options say that PreStartContainer must be called, and that nothing depends on preferences."""
    options = await kubelet.GetDevicePluginOptions(pb.Empty())
    assert (options.pre_start_required, options.get_preferred_allocation_available) == (True, False)


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
    expected = [edits(Pool(), ids, "", virtual_topology=False).devices[0].host_path for ids in seats]
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


async def test_a_preference_is_neither_promised_nor_given(kubelet: DevicePluginStub) -> None:
    """The options say that there is no preference, and a call for one says so too."""
    options = await kubelet.GetDevicePluginOptions(pb.Empty())
    with pytest.raises(GRPCError) as error:
        await kubelet.GetPreferredAllocation(pb.PreferredAllocationRequest())
    assert (options.get_preferred_allocation_available, error.value.status) == (False, Status.UNIMPLEMENTED)
