"""The embedded kubelet before a naive plugin: what the real one does, over real sockets."""

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from grpclib.server import Stream

from railside_proto import names
from railside_proto.machine import DeviceNode
from railside_proto.pb import deviceplugin_v1beta1_pb2 as pb
from railside_proto.pb.deviceplugin_v1beta1_grpc import DevicePluginBase, RegistrationStub
from railside_sim.grpc_server import MortalServer
from railside_sim.kubelet import EmbeddedKubelet
from railside_sim.pods import Failed, Pending, PodRequest, ResourceStatus, Running
from railside_sim.stand_in_nodes import StandInNodes

SEATS = tuple(f"n{node}-s{seat}" for node in (0, 1) for seat in range(4))


class NaivePlugin(DevicePluginBase):
    """Offers SEATS, each with a folder of one node, and does as its attributes say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sick: set[str] = set()
        self.refuse_allocate = self.refuse_start = ""
        self.wish: list[str] = []
        self.calls: list[str] = []
        self.options = pb.DevicePluginOptions(pre_start_required=True)
        self.changed = asyncio.Event()
        self.server = MortalServer([self])

    @property
    def plugins(self) -> Path:
        return self.folder / "kubelet/device-plugins"

    async def serve_and_register(self) -> None:
        self.server = MortalServer([self])
        await self.server.serve(self.plugins / "naive.sock")
        await self.register()

    async def register(self, version: str = "v1beta1", resource: str = names.RESOURCE) -> None:
        request = pb.RegisterRequest(version=version, endpoint="naive.sock", resource_name=resource)
        async with Channel(path=str(self.plugins / "kubelet.sock")) as channel:
            await RegistrationStub(channel).Register(request)

    def tell(self, *sick: str) -> None:
        self.sick = set(sick)
        self.changed.set()

    async def GetDevicePluginOptions(self, stream: Stream[pb.Empty, pb.DevicePluginOptions]) -> None:  # noqa: N802
        await stream.recv_message()
        await stream.send_message(self.options)

    async def ListAndWatch(self, stream: Stream[pb.Empty, pb.ListAndWatchResponse]) -> None:  # noqa: N802
        await stream.recv_message()
        while True:
            self.changed.clear()
            await stream.send_message(pb.ListAndWatchResponse(devices=map(self.device, SEATS)))
            await self.changed.wait()

    async def GetPreferredAllocation(  # noqa: N802
        self,
        stream: Stream[pb.PreferredAllocationRequest, pb.PreferredAllocationResponse],
    ) -> None:
        await stream.recv_message()
        self.calls.append("preferred")
        container = pb.ContainerPreferredAllocationResponse(deviceIDs=self.wish)
        await stream.send_message(pb.PreferredAllocationResponse(container_responses=[container]))

    async def Allocate(self, stream: Stream[pb.AllocateRequest, pb.AllocateResponse]) -> None:  # noqa: N802
        request = await stream.recv_message()
        assert request is not None
        self.calls.append("allocate")
        if self.refuse_allocate:
            raise GRPCError(Status.FAILED_PRECONDITION, self.refuse_allocate)
        ids = request.container_requests[0].devices_ids
        specs = [
            pb.DeviceSpec(container_path="/dev/infiniband", host_path=str(self.folder / seat)) for seat in ids
        ]
        container = pb.ContainerAllocateResponse(devices=specs)
        await stream.send_message(pb.AllocateResponse(container_responses=[container]))

    async def PreStartContainer(  # noqa: N802
        self,
        stream: Stream[pb.PreStartContainerRequest, pb.PreStartContainerResponse],
    ) -> None:
        await stream.recv_message()
        self.calls.append("start")
        if self.refuse_start:
            raise GRPCError(Status.UNAVAILABLE, self.refuse_start)
        await stream.send_message(pb.PreStartContainerResponse())

    def device(self, seat: str) -> pb.Device:
        topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=int(seat[1]))])
        return pb.Device(ID=seat, health="Unhealthy" if seat in self.sick else "Healthy", topology=topology)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path, as a socket's path may have 107 bytes, with one node for each seat."""
    with tempfile.TemporaryDirectory(prefix="sim") as name:
        for minor, seat in enumerate(SEATS):
            (Path(name) / seat).mkdir()
            node = DeviceNode(name=f"uverbs{minor}", major=231, minor=192 + minor)
            StandInNodes().make(Path(name) / seat / node.name, node)
        yield Path(name)


@pytest.fixture
async def kubelet(folder: Path) -> AsyncIterator[EmbeddedKubelet]:
    nodes, rng = StandInNodes(), random.Random(1)  # noqa: S311 - a repeatable choice
    async with EmbeddedKubelet(folder / "kubelet", read_node=nodes.read, rng=rng) as kubelet:
        yield kubelet


@pytest.fixture
async def plugin(folder: Path, kubelet: EmbeddedKubelet) -> AsyncIterator[NaivePlugin]:
    plugin = NaivePlugin(folder)
    await plugin.serve_and_register()
    await until(kubelet, 8, 8)
    yield plugin
    await plugin.server.end()


async def until(kubelet: EmbeddedKubelet, capacity: int, allocatable: int) -> None:
    status = ResourceStatus(capacity=capacity, allocatable=allocatable)
    await kubelet.until(lambda: kubelet.status_of() == status)


async def run(kubelet: EmbeddedKubelet, name: str, count: int = 1) -> Running:
    outcome = await kubelet.admit(PodRequest(name=name, count=count))
    assert isinstance(outcome, Running)
    return outcome


async def test_a_registered_plugin_is_counted(kubelet: EmbeddedKubelet, plugin: NaivePlugin) -> None:
    """Listed ids are capacity and healthy ones allocatable, and a new list counts at once."""
    plugin.tell("n0-s0")
    await until(kubelet, 8, 7)
    assert kubelet.node_status() == {names.RESOURCE: ResourceStatus(capacity=8, allocatable=7)}


@pytest.mark.parametrize(
    ("version", "resource", "text"),
    [
        ("v1alpha", names.RESOURCE, "requested API version 'v1alpha' is not supported by kubelet"),
        ("v1beta1", "cpu", "the ResourceName 'cpu' is invalid"),
        ("v1beta1", "kubernetes.io/x", "the ResourceName 'kubernetes.io/x' is invalid"),
        ("v1beta1", names.RESOURCE, "failed to dial device plugin: rpc error: code = Unavailable"),
    ],
)
async def test_a_bad_registration_is_refused(
    kubelet: EmbeddedKubelet,
    folder: Path,
    version: str,
    resource: str,
    text: str,
) -> None:
    """A wrong version, a resource that is not extended, or a socket that is not there: UNKNOWN with the text."""
    with pytest.raises(GRPCError) as raised:
        await NaivePlugin(folder).register(version, resource)
    assert (raised.value.status.name, kubelet.node_status()) == ("UNKNOWN", {})
    assert str(raised.value.message).startswith(text)


async def test_a_pod_of_one(kubelet: EmbeddedKubelet, plugin: NaivePlugin) -> None:
    """A pod of one gets one seat of the lowest node and exactly the node in that seat's folder."""
    pod = await run(kubelet, "one")
    (device,) = pod.devices
    assert pod.seats[0].startswith("n0-")
    assert device.path == f"/dev/infiniband/uverbs{SEATS.index(pod.seats[0])}"
    assert plugin.calls == ["allocate", "start"]


async def test_a_pod_of_two_stays_on_one_node(kubelet: EmbeddedKubelet, plugin: NaivePlugin) -> None:
    """Where node 0 has one seat left, a pod of two goes to node 1; a pod of four then has to spread."""
    await run(kubelet, "three", 3)
    assert {seat[:2] for seat in (await run(kubelet, "two", 2)).seats} == {"n1"}
    assert {seat[:2] for seat in (await run(kubelet, "rest", 3)).seats} == {"n0", "n1"}
    assert len(plugin.calls) == 6


async def test_a_ninth_pod_waits(kubelet: EmbeddedKubelet, plugin: NaivePlugin) -> None:
    """When all is dealt a pod is Pending without a call to the plugin, and runs when another has gone."""
    seats = [seat for number in range(8) for seat in (await run(kubelet, f"pod-{number}")).seats]
    calls = len(plugin.calls)
    ninth = await kubelet.admit(PodRequest(name="ninth"))
    assert ninth == Pending(pod="ninth", reason=f"0/1 nodes are available: 1 Insufficient {names.RESOURCE}.")
    assert (sorted(seats), len(plugin.calls)) == (sorted(SEATS), calls)
    await kubelet.remove("pod-3")
    assert (await run(kubelet, "ninth")).seats == (seats[3],)


async def test_a_sick_seat_is_not_dealt(kubelet: EmbeddedKubelet, plugin: NaivePlugin) -> None:
    """An unhealthy id is passed over, even where that means the other node."""
    plugin.tell("n0-s0", "n0-s1", "n0-s2")
    await until(kubelet, 8, 5)
    assert {seat[:2] for seat in (await run(kubelet, "two", 2)).seats} == {"n1"}


async def test_the_wish_counts_where_there_is_a_choice(kubelet: EmbeddedKubelet, plugin: NaivePlugin) -> None:
    """The plugin is asked only if it offers to be, and only while more seats are aligned than needed."""
    plugin.options = pb.DevicePluginOptions(get_preferred_allocation_available=True)
    await plugin.register()
    await until(kubelet, 8, 8)
    plugin.wish = ["n0-s2", "n1-s0"]
    assert (await run(kubelet, "wished")).seats == ("n0-s2",)
    assert (await run(kubelet, "forced", 3)).seats == ("n0-s0", "n0-s1", "n0-s3")
    assert plugin.calls == ["preferred", "allocate", "allocate"]


async def test_a_refused_allocate_fails_the_pod(kubelet: EmbeddedKubelet, plugin: NaivePlugin) -> None:
    """The plugin's text is in the pod's reason, and nothing is held."""
    plugin.refuse_allocate = "no cable"
    reason = (
        "UnexpectedAdmissionError: Allocate failed due to rpc error: code = FailedPrecondition desc = no cable,"
        " which is unexpected"
    )
    assert await kubelet.admit(PodRequest(name="bad")) == Failed(pod="bad", reason=reason)
    plugin.refuse_allocate = ""
    await run(kubelet, "all", 8)


async def test_a_refused_start_waits_with_its_seats(kubelet: EmbeddedKubelet, plugin: NaivePlugin) -> None:
    """A PreStartContainer error leaves the pod Pending with its seats, and a later start may work."""
    plugin.refuse_start = "not yet"
    waiting = await kubelet.admit(PodRequest(name="slow"))
    assert isinstance(waiting, Pending)
    assert waiting.reason.endswith("rpc failed with err: rpc error: code = Unavailable desc = not yet")
    plugin.refuse_start = ""
    started = await kubelet.restart_container("slow")
    assert isinstance(started, Running)
    assert (started.seats, plugin.calls) == (waiting.seats, ["allocate", "start", "start"])


async def test_a_missing_folder_waits_with_its_path(
    kubelet: EmbeddedKubelet,
    plugin: NaivePlugin,
    folder: Path,
) -> None:
    """Where the device folder is gone the container cannot be created, and the reason names the path."""
    (seat,) = (await run(kubelet, "one")).seats
    (folder / seat).rename(folder / "away")
    waiting = await kubelet.restart_container("one")
    assert isinstance(waiting, Pending)
    assert waiting.reason.startswith("CreateContainerError: failed to generate spec: lstat ")
    assert f"/{seat}: no such file" in waiting.reason
    (folder / "away").rename(folder / seat)
    assert isinstance(await kubelet.restart_container("one"), Running)
    assert plugin.calls.count("start") == 3


async def test_a_plugin_gone_leaves_nothing_allocatable(kubelet: EmbeddedKubelet, plugin: NaivePlugin) -> None:
    """When the plugin ends, capacity stays, allocatable is 0, pods wait and no container of its can start."""
    await run(kubelet, "one")
    await plugin.server.end()
    await until(kubelet, 8, 0)
    assert isinstance(await kubelet.admit(PodRequest(name="late")), Pending)
    stopped = await kubelet.restart_container("one")
    assert isinstance(stopped, Pending)
    assert stopped.reason.endswith("endpoint naive.sock has been stopped")
    (plugin.plugins / "naive.sock").unlink(missing_ok=True)  # Python 3.13 takes its sockets along
    await plugin.serve_and_register()
    await until(kubelet, 8, 8)
    assert isinstance(await kubelet.restart_container("one"), Running)


async def test_a_restart_forgets_plugins_and_keeps_pods(kubelet: EmbeddedKubelet, plugin: NaivePlugin) -> None:
    """A restart deletes the plugin's socket and counts 0 of 0 until it registers; held seats stay held."""
    seats = (await run(kubelet, "one")).seats
    await kubelet.restart()
    assert not (plugin.plugins / "naive.sock").exists()
    assert kubelet.node_status() == {names.RESOURCE: ResourceStatus()}
    assert isinstance(await kubelet.restart_container("one"), Running)
    assert plugin.calls == ["allocate", "start"]
    await plugin.server.end()
    await plugin.serve_and_register()
    await until(kubelet, 8, 8)
    assert not set(seats) & set((await run(kubelet, "rest", 7)).seats)


async def test_a_pod_is_admitted_once(kubelet: EmbeddedKubelet, plugin: NaivePlugin) -> None:
    """A second pod of a name that holds seats, and a pod of nothing, are mistakes of the caller."""
    await run(kubelet, "one")
    with pytest.raises(ValueError, match="one is admitted already"):
        await kubelet.admit(PodRequest(name="one"))
    with pytest.raises(ValueError, match="none asks for 0; allowed is 1 or more"):
        PodRequest(name="none", count=0)
    assert plugin.calls == ["allocate", "start"]
