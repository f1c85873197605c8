"""What the embedded kubelet of an older release does otherwise; each line was read in that release's sources."""

from typing import TYPE_CHECKING

import msgspec
import pytest
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from tests.unit.sim.conftest import HCA, Nodes, SimNode, first_of

from railside_proto import names
from railside_proto.pb import deviceplugin_v1beta1_pb2 as plugin_pb
from railside_proto.pb import podresources_v1_pb2 as pb
from railside_proto.pb.deviceplugin_v1beta1_grpc import RegistrationStub
from railside_proto.pb.podresources_v1_grpc import PodResourcesListerStub
from railside_sim.ages import (
    AGES,
    KUBELET_1_18,
    KUBELET_1_20,
    KUBELET_1_22,
    KUBELET_1_24,
    KUBELET_1_34,
    KUBELET_1_37,
    Age,
)
from railside_sim.gpu_plugin import GpuPlugin
from railside_sim.pods import PodRequest

if TYPE_CHECKING:
    from grpclib.server import Stream

NO_SERVICE = "unknown service v1.PodResourcesLister"
OLDER = (KUBELET_1_18, KUBELET_1_20, KUBELET_1_22, KUBELET_1_24)


def unknown(verb: str) -> str:
    return f"unknown method {verb} for service v1.PodResourcesLister"


@pytest.mark.parametrize(
    ("age", "listed", "allocatable", "one"),
    [
        pytest.param(KUBELET_1_18, NO_SERVICE, NO_SERVICE, NO_SERVICE, id="1.18"),
        pytest.param(KUBELET_1_20, "", unknown("GetAllocatableResources"), unknown("Get"), id="1.20"),
        pytest.param(
            KUBELET_1_22, "", "Pod Resources API GetAllocatableResources disabled", unknown("Get"), id="1.22"
        ),
        pytest.param(KUBELET_1_24, "", "", unknown("Get"), id="1.24"),
        pytest.param(KUBELET_1_34, "", "", "pod x in namespace default not found", id="1.34"),
    ],
)
async def test_pod_resources(nodes: Nodes, age: Age, listed: str, allocatable: str, one: str) -> None:
    """List came with 1.20, GetAllocatableResources with 1.21 and for all with 1.23, Get for all with 1.34."""
    node = await nodes.make(age=age)
    async with Channel(path=str(node.folder / names.POD_RESOURCES / names.KUBELET_SOCKET)) as channel:
        stub = PodResourcesListerStub(channel)
        said = [
            await refusal(stub.List, pb.ListPodResourcesRequest()),
            await refusal(stub.GetAllocatableResources, pb.AllocatableResourcesRequest()),
            await refusal(stub.Get, pb.GetPodResourcesRequest(pod_name="x", pod_namespace="default")),
        ]
    assert said == [listed, allocatable, one]


async def refusal(ask, request) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001 -- any of three methods
    try:
        await ask(request)
    except GRPCError as error:
        return str(error.message)
    return ""


@pytest.mark.parametrize("age", AGES, ids=lambda age: age.release)
async def test_preference(nodes: Nodes, age: Age) -> None:
    """Before 1.19 a plugin that offers to be asked for its preference never is, and its pods run."""
    node = await nodes.make(age=age)
    plugin = await node.offer("a0 b0 c1", preference=first_of(1))
    await node.run(PodRequest(name="pod"))
    calls = [asked.call for asked in plugin.asked]
    assert calls == ["allocate"] if age is KUBELET_1_18 else ["preferred", "allocate"]


@pytest.mark.parametrize("age", OLDER, ids=lambda age: age.release)
async def test_a_registration_is_taken_before_the_plugin_is_dialled(nodes: Nodes, age: Age) -> None:
    """Until 1.24 a plugin that nobody can reach registers all the same, and is never heard of."""
    node = await nodes.make(age=age)
    await register(node, "nobody.sock")
    assert node.kubelet.node_status() == {}
    await node.offer("a0")


async def test_a_newer_kubelet_dials_first(nodes: Nodes) -> None:
    """A plugin that nobody can reach is refused."""
    node = await nodes.make()
    with pytest.raises(GRPCError, match="failed to dial device plugin"):
        await register(node, "nobody.sock")


async def register(node: SimNode, socket: str) -> None:
    request = plugin_pb.RegisterRequest(version=names.DEVICE_PLUGIN_API, endpoint=socket, resource_name=HCA)
    async with Channel(path=str(node.folder / names.DEVICE_PLUGINS / names.KUBELET_SOCKET)) as channel:
        await RegistrationStub(channel).Register(request)


@pytest.mark.parametrize("age", OLDER, ids=lambda age: age.release)
async def test_options_come_with_the_registration(nodes: Nodes, age: Age) -> None:
    """Until 1.24 a plugin's options are those of its Register: nobody asks for them, and it is told of starts."""
    node = await nodes.make(age=age)
    plugin = Mute(node.folder / names.DEVICE_PLUGINS, {"a0": 0}, resource=HCA, pre_start=True)
    try:
        await plugin.serve_and_register()
        await node.listed("a0")
        await node.run(PodRequest(name="pod"))
    finally:
        await plugin.end()
    assert [asked.call for asked in plugin.asked] == ["allocate", "start"]


class Mute(GpuPlugin):
    """Does not say what its options are."""

    async def GetDevicePluginOptions(  # noqa: N802 -- the wire's name
        self, stream: "Stream[plugin_pb.Empty, plugin_pb.DevicePluginOptions]"
    ) -> None:
        await stream.recv_message()
        raise GRPCError(Status.UNIMPLEMENTED)


@pytest.mark.parametrize("age", [*OLDER, KUBELET_1_37], ids=lambda age: age.release)
async def test_an_earlier_stream_takes_only_itself_along(nodes: Nodes, age: Age) -> None:
    """Until 1.24, and again in 1.37, a plugin that registered anew outlives its predecessor's stream."""
    node = await nodes.make(age=age)
    first = await node.offer("a0", socket="first.sock")
    await node.offer("b0", socket="second.sock")
    await first.end()
    await node.tell("b0 c0")
    await node.run(PodRequest(name="pod"))


async def test_a_path_that_is_connected_is_refused_for_good(nodes: Nodes) -> None:
    """In 1.37 it is, even when its connection has ended; the last list stands, and another path is taken."""
    node = await nodes.make(age=KUBELET_1_37)
    first = await node.offer("a0", socket="one.sock")
    with pytest.raises(GRPCError, match=r"device plugin already connected: .*/one\.sock"):
        await register(node, "one.sock")
    await first.end()
    with pytest.raises(GRPCError, match=r"device plugin already connected: .*/one\.sock"):
        await first.serve_and_register()
    assert node.kubelet.status_of().allocatable == 1
    await node.offer("a0 b0", socket="two.sock")
    await node.run(PodRequest(name="pod"))


@pytest.mark.parametrize("age", OLDER, ids=lambda age: age.release)
async def test_a_start_empties_the_plugins_folder(nodes: Nodes, age: Age) -> None:
    """Older kubelets delete every file but their checkpoint, and leave folders."""
    node = await nodes.make(age=age)
    folder = node.folder / names.DEVICE_PLUGINS
    await node.offer("a0")
    (folder / "note").touch()
    (folder / "kept").mkdir()
    await node.kubelet.stop()
    await node.kubelet.start()
    assert {path.name for path in folder.iterdir()} == {names.KUBELET_CHECKPOINT, names.KUBELET_SOCKET, "kept"}


async def test_the_first_form_of_the_checkpoint(nodes: Nodes) -> None:
    """Until 1.19 a container's ids stand in one list, and a kubelet that starts takes them up from it."""
    node = await nodes.make(age=KUBELET_1_18)
    await node.offer("a0 b1")
    found = await node.run(PodRequest(name="pod"))
    file = node.folder / names.DEVICE_PLUGINS / names.KUBELET_CHECKPOINT
    (entry,) = msgspec.json.decode(file.read_bytes())["Data"]["PodDeviceEntries"]
    assert entry["DeviceIDs"] == list(found.seats)
    await node.end()
    await node.kubelet.restart()
    again = await node.offer("a0 b1")
    assert (await node.run(PodRequest(name="next"))).seats != found.seats
    assert [asked.call for asked in again.asked] == ["allocate"]
