import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.conftest import MakeTree
from tests.unit.builders import LogLines

from railside_agent.app import Agent
from railside_agent.settings import Settings
from railside_proto.machine import DeviceNode
from railside_proto.names import RESOURCE
from railside_sim.kubelet import EmbeddedKubelet
from railside_sim.pods import Pending, PodRequest, Running
from railside_sim.stand_in_nodes import StandInNodes

_SECONDS = 10.0
_PORT_STATE = "sys/class/infiniband/{name}/ports/1/state"


class _Node:
    """A machine with its kubelet, on which an agent can be started and ended."""

    def __init__(self, root: Path, kubelet: EmbeddedKubelet, kubelet_dir: Path, written: LogLines) -> None:
        self.root = root
        self.kubelet = kubelet
        self.written = written
        self.checkpoint = kubelet_dir / "device-plugins/kubelet_internal_checkpoint"
        self._settings = Settings(
            root=str(root),
            host_root=str(root),
            kubelet_dir=str(kubelet_dir),
            listen_port=_free_port(),
            mode="ib-shared",
            resync_seconds=1,
        )
        self._session: aiohttp.ClientSession
        self._running: asyncio.Task[Any]

    @contextlib.asynccontextmanager
    async def agent(self) -> AsyncIterator[None]:
        """An agent from its start to its being told to stop."""
        agent = await asyncio.to_thread(Agent, self._settings, self.written.log, StandInNodes())
        self._running = running = asyncio.create_task(agent.run())
        async with aiohttp.ClientSession(f"http://127.0.0.1:{self._settings.listen_port}") as self._session:
            try:
                await self.until(self._is_ready)
                yield
            finally:
                running.cancel()
                await asyncio.wait([running])
        if not running.cancelled():
            running.result()

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Ask again and again until it holds; an agent that ends is told at once."""
        async with asyncio.timeout(_SECONDS):
            while not await holds():
                await asyncio.wait([self._running], timeout=0.02)
                assert not self._running.done()

    async def get(self, path: str) -> tuple[int, bytes]:
        async with self._session.get(path) as answer:
            return answer.status, await answer.read()

    async def status(self) -> Any:  # noqa: ANN401 -- JSON
        async with self._session.get("/status") as answer:
            return await answer.json()

    async def seat_until(self, pod: Running, holds: Callable[[Any], bool]) -> None:
        """Return when it holds for a pod's seat: the status follows the machine, a moment later."""

        async def seat_holds() -> bool:
            return holds(await _seat(self, pod))

        await self.until(seat_holds)

    async def allocatable(self, count: int) -> None:
        await self.kubelet.until(lambda: self.kubelet.status_of().allocatable == count)

    async def set_port(self, name: str, state: str) -> None:
        await asyncio.to_thread((self.root / _PORT_STATE.format(name=name)).write_text, f"{state}\n")

    async def _is_ready(self) -> bool:
        try:
            return await self.get("/readyz") == (200, b"ok\n")
        except aiohttp.ClientConnectionError:
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
async def node(make_tree: MakeTree, kubelet_dir: Path, written: LogLines) -> AsyncIterator[_Node]:
    kubelet = EmbeddedKubelet(kubelet_dir, read_node=StandInNodes().read, rng=random.Random(1))  # noqa: S311 -- not a secret
    root = await asyncio.to_thread(make_tree, "ecs.hpcpni3.45xlarge")
    async with kubelet:
        yield _Node(root, kubelet, kubelet_dir, written)


def _devices(pod: Running) -> list[str]:
    return [device.path for device in pod.devices]


async def _seat(node: _Node, pod: Running) -> Any:  # noqa: ANN401 -- JSON
    """What the status says of a pod's one seat."""
    return next(one for one in (await node.status())["seats"] if one["id"] == pod.seats[0])


def _hcas(told: Any) -> dict[str, str]:  # noqa: ANN401 -- JSON
    """The HCA of each seat."""
    return {one["id"]: one["hca"] for one in told["seats"]}


async def _run(node: _Node, name: str) -> Running:
    outcome = await node.kubelet.admit(PodRequest(name=name))
    assert isinstance(outcome, Running)
    return outcome


def _device_of(told: Any, seat: str) -> str:  # noqa: ANN401 -- JSON
    device: str = next(one["device"] for one in told["seats"] if one["id"] == seat)
    return device


async def test_a_pod_gets_one_hca_and_nothing_of_the_others(node: _Node) -> None:
    """A pod finds its HCA's node and rdma_cm, and /status names the HCA that it holds (B-DP-50)."""
    async with node.agent():
        await node.allocatable(8)
        pod = await _run(node, "train")
        told = await node.status()
        expected = ["/dev/infiniband/rdma_cm", f"/dev/infiniband/{_device_of(told, pod.seats[0])}"]
        assert expected == _devices(pod)
        assert [list(pod.seats)] == [one["seats"] for one in told["containers"]]
        assert "/run/railside/infiniband-rdma" in {mount.container_path for mount in pod.mounts}


async def test_nine_pods(node: _Node) -> None:
    """Eight pods get eight different HCAs, the ninth waits, and gets the HCA of the first that ends (B-DP-4)."""
    async with node.agent():
        await node.allocatable(8)
        pods = [await _run(node, f"pod-{number}") for number in range(8)]
        assert len({_devices(pod)[1] for pod in pods}) == 8
        ninth = await node.kubelet.admit(PodRequest(name="pod-8"))
        assert Pending(pod="pod-8", reason=f"0/1 nodes are available: 1 Insufficient {RESOURCE}.") == ninth
        await node.kubelet.remove("pod-3")
        assert _devices(pods[3]) == _devices(await _run(node, "pod-8"))


async def test_a_restart_of_the_agent_changes_no_pods_hca(node: _Node) -> None:
    """Seats mean the same HCAs after a restart, and a container that starts again has its own (B-DP-23)."""
    async with node.agent():
        await node.allocatable(8)
        pod = await _run(node, "train")
        before = await node.status()
    async with node.agent():
        await node.allocatable(8)
        after = await node.status()
        assert (_hcas(before), before["containers"]) == (_hcas(after), after["containers"])
        assert pod == await node.kubelet.restart_container("train")


async def test_an_hca_that_vanished_while_the_agent_was_away_keeps_its_seat(node: _Node) -> None:
    """A restart without one of the HCAs still lists its seat, ill, and gives it to nobody else (B-DP-41)."""
    async with node.agent():
        before = await node.status()
    await asyncio.to_thread((node.root / "sys/class/infiniband/mlx5_0").unlink)
    async with node.agent():
        await node.allocatable(7)
        after = await node.status()
        assert [one["id"] for one in before["seats"]] == [one["id"] for one in after["seats"]]
        gone = next(one for one in after["seats"] if not one["healthy"])
        assert (gone["hca"], gone["reason"]["code"]) == ("0000:1a:00.0", "NoRdmaDevice")


async def test_a_port_that_goes_down_and_comes_back(node: _Node) -> None:
    """A dead port makes a free seat Unhealthy, and it recovers by itself (B-DP-37, B-DP-38)."""
    async with node.agent():
        await node.allocatable(8)
        await node.set_port("mlx5_4", "1: DOWN")
        await node.allocatable(7)
        await node.set_port("mlx5_4", "4: ACTIVE")
        await node.allocatable(8)


async def test_a_held_hca_that_falls_ill(node: _Node) -> None:
    """Its seat stays counted, so that no idle HCA is hidden; its container waits with the reason (law 8)."""
    async with node.agent():
        await node.allocatable(8)
        pod = await _run(node, "train")
        await node.set_port((await _seat(node, pod))["name"], "1: DOWN")
        waiting = await node.kubelet.restart_container("train")
        await node.seat_until(pod, lambda seat: not seat["healthy"] and seat["held"])
        told = await _seat(node, pod)
        assert isinstance(waiting, Pending)
        sentence = (
            f"railside: the HCA of seat {told['id']} ({told['hca']}) is not sound:"
            f" {told['name']} has no active InfiniBand port (port 1 is DOWN)"
        )
        assert sentence in waiting.reason
        assert (told["held"], told["healthy"], told["reason"]["code"]) == (True, False, "NoActivePort")
        assert node.kubelet.status_of().allocatable == 8
        await node.set_port(told["name"], "4: ACTIVE")
        assert pod == await node.kubelet.restart_container("train")


async def test_a_container_that_was_refused_finds_nothing(node: _Node) -> None:
    """Nothing of an earlier start is left to a container whose HCA has gone (law 9)."""
    async with node.agent():
        await node.allocatable(8)
        pod = await _run(node, "train")
        link = next(Path(mount.host_path).parent / "ib" for mount in pod.mounts if "alloc" in mount.host_path)
        told = await _seat(node, pod)
        await asyncio.to_thread((node.root / "sys/class/infiniband" / told["name"]).unlink)
        assert isinstance(await node.kubelet.restart_container("train"), Pending)
        assert not await asyncio.to_thread(link.is_symlink)


async def test_an_hca_that_is_renumbered_is_withdrawn_at_the_next_look(node: _Node) -> None:
    """What was laid out under numbers that are no longer its own goes by itself, before any start (law 9)."""
    async with node.agent():
        await node.allocatable(8)
        pod = await _run(node, "train")
        link = next(Path(mount.host_path).parent / "ib" for mount in pod.mounts if "alloc" in mount.host_path)
        device = (await _seat(node, pod))["device"]
        await asyncio.to_thread(_renumber, node.root, device, DeviceNode(name=device, major=231, minor=250))

        async def withdrawn() -> bool:
            return not await asyncio.to_thread(link.is_symlink)

        await node.until(withdrawn)


def _renumber(root: Path, device: str, now: DeviceNode) -> None:
    (root / f"sys/class/infiniband_verbs/{device}/dev").write_text(f"{now.major}:{now.minor}\n")
    (root / f"dev/infiniband/{device}").unlink()
    StandInNodes().make(root / f"dev/infiniband/{device}", now)


async def test_what_another_plugin_dealt_stays_listed(node: _Node) -> None:
    """An id that a pod holds from another plugin is listed, or the kubelet crashes (law 1, law 2)."""
    entry = {"ResourceName": RESOURCE, "DeviceIDs": {"1": ["mlx5_9"]}}
    content = msgspec.json.encode({"Data": {"PodDeviceEntries": [entry]}, "Checksum": 1})
    await asyncio.to_thread(node.checkpoint.write_bytes, content)
    async with node.agent():
        await node.kubelet.until(lambda: node.kubelet.status_of().capacity == 9)
        foreign = next(one for one in node.kubelet.listed() if one.id == "mlx5_9")
        assert (True, frozenset({1})) == (foreign.healthy, foreign.numa)


async def test_another_plugins_ids_alone_register_nothing(node: _Node) -> None:
    """A node without HCAs of ours is left to the plugin whose ids its pods hold."""
    entry = {"ResourceName": RESOURCE, "DeviceIDs": {"1": ["mlx5_9"]}}
    content = msgspec.json.encode({"Data": {"PodDeviceEntries": [entry]}, "Checksum": 1})
    await asyncio.to_thread(node.checkpoint.write_bytes, content)
    await asyncio.to_thread((node.root / "sys/class/infiniband").rename, node.root / "sys/class/hidden")
    async with node.agent():
        told = await node.status()
        assert ([one["id"] for one in told["seats"]], told["registration"]["registered"]) == (["mlx5_9"], False)
        assert node.kubelet.node_status() == {}


async def test_a_torn_checkpoint_forgets_nothing(node: _Node) -> None:
    """While the kubelet's checkpoint makes no sense, what was held is still taken for held."""
    async with node.agent():
        await node.allocatable(8)
        pod = await _run(node, "train")
        await node.seat_until(pod, lambda seat: seat["held"])
        await asyncio.to_thread(node.checkpoint.write_bytes, b"{")
        await node.set_port("mlx5_0", "1: DOWN")
        await node.set_port("mlx5_9", "1: DOWN")

        async def looked_again() -> bool:
            return not all(one["healthy"] for one in (await node.status())["seats"])

        await node.until(looked_again)
        assert (await _seat(node, pod))["held"]


async def test_seats_are_recovered_where_they_were_forgotten(node: _Node) -> None:
    """Without its memory the agent goes by what is bound, and no seat changes its HCA (law 6)."""
    async with node.agent():
        await node.allocatable(8)
        pods = [await _run(node, f"train-{number}") for number in range(3)]
        before = {seat: (await _seat(node, pod))["hca"] for pod in pods for seat in pod.seats}
    await asyncio.to_thread((node.root / "var/lib/railside/seats-infiniband-rdma.json").unlink)
    first = min(before.values())
    name = next(one.name for one in (node.root / "sys/class/infiniband").iterdir() if first in str(one.resolve()))
    await asyncio.to_thread((node.root / "sys/class/infiniband" / name).unlink)
    async with node.agent():
        await node.kubelet.until(lambda: node.kubelet.status_of().capacity == 8)
        told = {one["id"]: one["hca"] for one in (await node.status())["seats"]}
        assert before == {seat: told[seat] for seat in before}


async def test_what_is_left_out_is_told(node: _Node) -> None:
    """The bond that speaks Ethernet stands in the status and in the log with its reason (B-DP-5)."""
    async with node.agent():
        told = await node.status()
        assert [(one["name"], one["reason"]["code"]) for one in told["machine"]["excluded"]] == [
            ("mlx5_bond_0", "EthernetLink")
        ]
        assert "EthernetLink" in {line.get("reason") for line in node.written.lines}


async def test_a_node_without_hcas_is_ready_and_not_registered(node: _Node) -> None:
    """With nothing to offer the agent is ready, says why, and pushes no other plugin aside (B-DP-15, B-DP-45)."""
    hidden = node.root / "sys/class/hidden"
    await asyncio.to_thread((node.root / "sys/class/infiniband").rename, hidden)
    async with node.agent():
        told = await node.status()
        assert (told["nothingOffered"]["code"], told["registration"]["registered"]) == ("NoRdmaDevices", False)
        assert node.kubelet.node_status() == {}
        await asyncio.to_thread(hidden.rename, node.root / "sys/class/infiniband")
        await node.allocatable(8)
