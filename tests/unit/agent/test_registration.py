import asyncio
import contextlib
import random
import stat
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server, Stream
from tests.unit.agent.situations import POOL, listed, situation
from tests.unit.builders import LogLines, hca
from tests.unit.running import running

from railside_agent.binding import Bound, Refused
from railside_agent.container_edits import ContainerEdits, Style, edits
from railside_agent.plugin import DevicePlugin
from railside_agent.registration import Registrar
from railside_agent.view import NOT_TRIED
from railside_proto.names import RESOURCE
from railside_proto.pb import deviceplugin_v1beta1_pb2 as pb
from railside_proto.pb.deviceplugin_v1beta1_grpc import RegistrationBase, RegistrationStub
from railside_proto.pool import Pool
from railside_runtime.cell import Cell
from railside_sim.ages import KUBELET_1_34, KUBELET_1_37, Age
from railside_sim.kubelet import EmbeddedKubelet
from railside_sim.pods import Failed, PodRequest, ResourceStatus
from railside_sim.stand_in_nodes import StandInNodes

_OFFER = listed(situation(hca(1), hca(2, 1)))
_WHOLE = ResourceStatus(capacity=2, allocatable=2)


class _Starts:
    async def deal(self, seats: tuple[str, ...]) -> ContainerEdits:
        return edits(POOL, seats, Style(), virtual_topology=False)

    async def start(self, seats: tuple[str, ...]) -> Bound | Refused:
        return Bound(seats=seats, hcas=())


class _RefusingKubelet(RegistrationBase):
    """Refuses a number of registrations, then takes one."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.asked: Cell[int] = Cell(0)

    async def Register(self, stream: Stream[pb.RegisterRequest, pb.Empty]) -> None:  # noqa: N802 - the wire's name
        await stream.recv_message()
        self.asked.set(self.asked.value + 1)
        if self.asked.value <= self.refusals:
            raise GRPCError(Status.UNKNOWN, "requested API version v1beta1 is not supported")
        await stream.send_message(pb.Empty())


def _kubelet(folder: Path, age: Age = KUBELET_1_34) -> EmbeddedKubelet:
    rng = random.Random(1)  # noqa: S311 -- not a secret
    return EmbeddedKubelet(folder, read_node=StandInNodes().read, rng=rng, age=age)


def _own(kubelet_dir: Path, *, besides: Collection[str] = ()) -> Path:
    """The one socket of the plugin's own."""
    found = (kubelet_dir / "device-plugins").glob("railside-*.sock")
    (own,) = (path for path in found if path.name not in besides)
    return own


@pytest.fixture
def registrar(kubelet_dir: Path, written: LogLines) -> Registrar:
    return Registrar(POOL, DevicePlugin(Cell(_OFFER), _Starts()), kubelet_dir, written.log)


@asynccontextmanager
async def _serving(kubelet: RegistrationBase, kubelet_dir: Path) -> AsyncIterator[None]:
    folder = kubelet_dir / "device-plugins"
    folder.mkdir()
    server = Server([kubelet])
    await server.start(path=str(folder / "kubelet.sock"))
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()


async def _whole(kubelet: EmbeddedKubelet) -> None:
    await kubelet.until(lambda: kubelet.status_of() == _WHOLE)


async def test_a_plugin_is_registered_and_its_list_is_taken(registrar: Registrar, kubelet_dir: Path) -> None:
    """The kubelet counts every seat, and the state says that it is registered."""
    async with _kubelet(kubelet_dir) as kubelet, running(registrar):
        await _whole(kubelet)
        state = await registrar.state.until(lambda state: state.registered)
        assert f"registered as {RESOURCE}" == state.detail


async def test_nobody_but_root_may_talk_to_the_plugin(registrar: Registrar, kubelet_dir: Path) -> None:
    """Whoever could call Allocate and PreStartContainer would have containers' HCAs exchanged."""
    async with _kubelet(kubelet_dir), running(registrar):
        await registrar.state.until(lambda state: state.registered)
        found = await asyncio.to_thread(_own(kubelet_dir).stat)
    assert stat.S_IMODE(found.st_mode) == 0o600


async def test_a_kubelet_that_restarts_has_the_plugin_again(registrar: Registrar, kubelet_dir: Path) -> None:
    """After each restart of the kubelet the same ids are back within its 1.2 s (B-DP-22, B-DP-23)."""
    async with _kubelet(kubelet_dir) as kubelet, running(registrar):
        for _ in range(5):
            await _whole(kubelet)
            await kubelet.restart()
            await kubelet.until(lambda: kubelet.status_of() == _WHOLE, timeout_s=1.2)


async def test_a_kubelet_may_come_later_than_the_agent(registrar: Registrar, kubelet_dir: Path) -> None:
    """Without a kubelet the agent waits, says for what, and registers as soon as it comes (B-DP-28)."""
    async with running(registrar):
        state = await registrar.state.until(lambda state: "waiting" in state.detail)
        socket_path = kubelet_dir / "device-plugins/kubelet.sock"
        assert f"waiting for the kubelet's socket {socket_path}" == state.detail
        async with _kubelet(kubelet_dir) as kubelet:
            await _whole(kubelet)


async def test_a_refusal_is_told_and_tried_again(
    registrar: Registrar, kubelet_dir: Path, written: LogLines
) -> None:
    """The kubelet's words are the detail, each try waits longer, and one that is taken ends it (B-DP-26, -27)."""
    kubelet = _RefusingKubelet(refusals=3)
    async with _serving(kubelet, kubelet_dir), running(registrar):
        refused = await registrar.state.until(lambda state: "refused" in state.detail)
        assert refused.detail == "the kubelet refused: requested API version v1beta1 is not supported"
        await registrar.state.until(lambda state: state.registered)
    assert kubelet.asked.value == 4
    assert [line["registered"] for line in written.lines] == [False, True]


@pytest.mark.parametrize("answer", [b"", b"\xff\xff", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
async def test_whatever_sits_on_the_kubelets_socket_ends_nothing(
    registrar: Registrar, kubelet_dir: Path, answer: bytes
) -> None:
    """Something that is no kubelet is told and tried again, for ever if need be (B-DP-27)."""
    folder = kubelet_dir / "device-plugins"
    folder.mkdir()

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    async with await asyncio.start_unix_server(talk, folder / "kubelet.sock"), running(registrar):
        state = await registrar.state.until(lambda state: "did not answer" in state.detail)
        assert not state.registered


async def test_a_kubelet_that_stops_listening_is_registered_with_again(
    registrar: Registrar, kubelet_dir: Path
) -> None:
    """A list that nobody listens to while both sockets stand is offered anew (B-DP-21, B-DP-25)."""
    deaf = _RefusingKubelet(refusals=0)
    async with _serving(deaf, kubelet_dir), running(registrar):
        await deaf.asked.until(lambda tries: tries == 3)


async def test_a_kubelet_that_hangs_does_not_hold_up_the_next(registrar: Registrar, kubelet_dir: Path) -> None:
    """While one kubelet never answers, the state says who is asked, and the next one is met at once (B-DP-27)."""
    folder = kubelet_dir / "device-plugins"
    folder.mkdir()
    released = asyncio.Event()

    async def hang(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await released.wait()
        writer.close()

    async with running(registrar), await asyncio.start_unix_server(hang, folder / "kubelet.sock"):
        await registrar.state.until(lambda state: state.detail == "asking the kubelet")
        async with _kubelet(kubelet_dir) as kubelet:
            await kubelet.until(lambda: kubelet.status_of() == _WHOLE, timeout_s=1.2)
        released.set()


async def test_a_kubelet_that_changes_its_sockets_mode_is_the_same(
    registrar: Registrar, kubelet_dir: Path
) -> None:
    """A chmod of the kubelet's socket is no restart."""
    async with _kubelet(kubelet_dir) as kubelet, running(registrar):
        await _whole(kubelet)
        await registrar.state.until(lambda state: state.registered)
        (kubelet_dir / "device-plugins/kubelet.sock").chmod(0o600)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await registrar.state.until(lambda state: not state.registered)
        assert registrar.state.value.registered


class _SlowStarts(_Starts):
    """Answers an Allocate when it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.released = asyncio.Event()

    async def deal(self, seats: tuple[str, ...]) -> ContainerEdits:
        self.asked.set()
        await self.released.wait()
        return await super().deal(seats)


async def test_a_call_under_way_is_answered_before_the_end(kubelet_dir: Path, written: LogLines) -> None:
    """An agent that is told to stop finishes the Allocate in hand: one that is cut fails its pod for good."""
    starts = _SlowStarts()
    registrar = Registrar(POOL, DevicePlugin(Cell(_OFFER), starts), kubelet_dir, written.log)
    async with _kubelet(kubelet_dir) as kubelet:
        async with running(registrar):
            await _whole(kubelet)
            admitting = asyncio.create_task(kubelet.admit(PodRequest(name="train")))
            await starts.asked.wait()
            asyncio.get_running_loop().call_later(0.02, starts.released.set)
        assert not isinstance(await admitting, Failed)


async def test_two_agents_in_one_folder_do_not_spin(kubelet_dir: Path, written: LogLines) -> None:
    """Two that take the socket from each other do so ever more slowly, and each says what happens."""
    twins = [Registrar(POOL, DevicePlugin(Cell(_OFFER), _Starts()), kubelet_dir, written.log) for _ in range(2)]
    kubelet = _RefusingKubelet(refusals=0)
    async with _serving(kubelet, kubelet_dir), running(twins[0]), running(twins[1]):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3):
                await kubelet.asked.until(lambda tries: tries > 12)
    assert kubelet.asked.value <= 12


async def test_long_pauses_do_not_delay_the_next_kubelet(registrar: Registrar, kubelet_dir: Path) -> None:
    """While tries fail ever more slowly, a new kubelet is noticed at once (B-DP-27, B-DP-28)."""
    refusing = _RefusingKubelet(refusals=100)
    async with running(registrar):
        async with _serving(refusing, kubelet_dir):
            # The pause after this try is at least 1.6 s.
            await refusing.asked.until(lambda tries: tries == 4)
        async with _kubelet(kubelet_dir) as kubelet:
            await kubelet.until(lambda: kubelet.status_of() == _WHOLE, timeout_s=1.2)


async def test_a_socket_that_was_left_behind_is_replaced(registrar: Registrar, kubelet_dir: Path) -> None:
    """A plugin that was killed leaves its socket's file; the next one takes it away, and no other's (B-DP-36)."""
    folder = kubelet_dir / "device-plugins"
    others = {"railside-other.0a1b2c.sock", "railside-infiniband-rdma.x.0a1b2c.sock", "theirs.sock"}
    async with _kubelet(kubelet_dir) as kubelet:
        for name in ("railside-infiniband-rdma.sock", "railside-infiniband-rdma.0a1b2c.sock", *others):
            (folder / name).write_text("left behind")
        async with running(registrar):
            await _whole(kubelet)
            names = {path.name for path in folder.glob("*.sock")}
            assert names == {*others, "kubelet.sock", _own(kubelet_dir, besides=others).name}


async def test_a_socket_that_is_deleted_is_served_anew(registrar: Registrar, kubelet_dir: Path) -> None:
    """Whoever empties the folder does not make the plugin unreachable for good (B-DP-23)."""
    async with _kubelet(kubelet_dir) as kubelet, running(registrar):
        await _whole(kubelet)
        await registrar.state.until(lambda state: state.registered)
        own = _own(kubelet_dir)
        own.unlink()
        await registrar.state.until(lambda state: not state.registered)
        await registrar.state.until(lambda state: state.registered)
        await _whole(kubelet)
        assert _own(kubelet_dir).name != own.name


async def test_a_kubelet_that_never_takes_a_name_twice(kubelet_dir: Path, registrar: Registrar) -> None:
    """A kubelet of 1.37 that lost count of a connection has the plugin back under another name."""
    async with _kubelet(kubelet_dir, age=KUBELET_1_37) as kubelet, running(registrar):
        await _whole(kubelet)
        await registrar.state.until(lambda state: state.registered)
        await _register_twice(kubelet_dir)
        _own(kubelet_dir).unlink()
        await registrar.state.until(lambda state: not state.registered)
        await registrar.state.until(lambda state: state.registered)
        await kubelet.until(lambda: kubelet.status_of() == _WHOLE)


async def _register_twice(kubelet_dir: Path) -> None:
    """Have the kubelet asked for the plugin that it has, as one that hangs up and comes back too soon does."""
    request = pb.RegisterRequest(version="v1beta1", endpoint=_own(kubelet_dir).name, resource_name=RESOURCE)
    async with Channel(path=str(kubelet_dir / "device-plugins/kubelet.sock")) as channel:
        with pytest.raises(GRPCError, match="device plugin already connected"):
            await RegistrationStub(channel).Register(request)


async def test_a_socket_that_cannot_be_made_is_told(kubelet_dir: Path, written: LogLines) -> None:
    """A name that makes the socket's path too long is said in the state, and the agent stays up (B-DP-45)."""
    pool = Pool(resource=f"example.com/{'a' * 63}")
    registrar = Registrar(pool, DevicePlugin(Cell(_OFFER), _Starts()), kubelet_dir, written.log)
    async with _kubelet(kubelet_dir), running(registrar):
        state = await registrar.state.until(lambda state: "cannot be served" in state.detail)
        assert not state.registered


async def test_who_rests_says_that_there_is_nothing_to_offer(registrar: Registrar, kubelet_dir: Path) -> None:
    """A plugin that is not to be registered any more has left the kubelet, and its state says why."""
    async with _kubelet(kubelet_dir) as kubelet:
        async with running(registrar):
            await _whole(kubelet)
        await registrar.rest()
        assert registrar.state.value == NOT_TRIED
        await kubelet.until(lambda: kubelet.status_of().allocatable == 0)
