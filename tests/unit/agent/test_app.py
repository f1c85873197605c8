import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.conftest import MakeTree
from tests.unit.agent.living_node import LivingNode, living_node
from tests.unit.agent.situations import answer
from tests.unit.builders import LogLines

from railside_agent.app import Agent
from railside_agent.pool_settings import PoolSettings
from railside_proto.machine import DeviceNode
from railside_proto.names import RESOURCE
from railside_sim.pods import Pending, PodRequest, Running
from railside_sim.stand_in_nodes import StandInNodes

_SECONDS = 10.0


class _Node(LivingNode):
    """A node whose agent hears the kernel itself, and is asked over HTTP as a probe asks it."""

    _session: aiohttp.ClientSession

    def configure(self, **facts: object) -> None:
        """What the next agent is told."""
        self.settings = msgspec.structs.replace(self.settings, **facts)

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """An agent from its start, when it is ready, to its being told to stop."""
        agent = await asyncio.to_thread(Agent, self.settings, self.written.log, StandInNodes())
        self._agent = agent
        self.running = asyncio.create_task(agent.run())
        async with aiohttp.ClientSession(f"http://127.0.0.1:{self.settings.listen_port}") as self._session:
            try:
                await self.until_asked(self._is_ready)
                yield
            finally:
                await self.stop()

    async def until_asked(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Ask again and again until it holds; an agent that ends is told at once."""
        async with asyncio.timeout(_SECONDS):
            while not await holds():
                await asyncio.wait([self.running], timeout=0.02)
                assert not self.running.done()

    async def get(self, path: str) -> tuple[int, bytes]:
        async with self._session.get(path) as answer:
            return answer.status, await answer.read()

    async def status(self) -> Any:  # noqa: ANN401 -- JSON
        async with self._session.get("/status") as answer:
            return await answer.json()

    async def pool(self) -> Any:  # noqa: ANN401 -- JSON
        """What the status says of the first pool."""
        return (await self.status())["pools"][0]

    async def held_until(self, pods: int) -> None:
        """Return when the status shows so many containers: it follows the kubelet, a moment later."""

        async def shown() -> bool:
            return len((await self.pool())["containers"]) == pods

        await self.until_asked(shown)

    async def hold_elsewhere(self, name: str, numa_node: int, device: str | None = None) -> None:
        """The kubelet's checkpoint says that another plugin has dealt ``name``, with ``device`` in its answer."""
        said = answer(f"/dev/infiniband/{device}") if device else b""
        entry = {
            "PodUID": "other",
            "ContainerName": "main",
            "ResourceName": RESOURCE,
            "DeviceIDs": {str(numa_node): [name]},
            "AllocResp": base64.b64encode(said).decode(),
        }
        content = msgspec.json.encode(
            {"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": {}}, "Checksum": 1}
        )
        # A kubelet that runs would write its own over it.
        await self.kubelet.stop()
        await asyncio.to_thread(self.checkpoint.write_bytes, content)
        await self.kubelet.start()

    async def seat_until(self, pod: Running, holds: Callable[[Any], bool]) -> None:
        """Return when it holds for a pod's seat: the status follows the machine, a moment later."""

        async def seat_holds() -> bool:
            return holds(await _seat(self, pod))

        await self.until_asked(seat_holds)

    async def _is_ready(self) -> bool:
        try:
            return await self.get("/readyz") == (200, b"ok\n")
        except aiohttp.ClientConnectionError:
            return False


@pytest.fixture
async def node(make_tree: MakeTree, kubelet_dir: Path, written: LogLines) -> AsyncIterator[_Node]:
    root = await asyncio.to_thread(make_tree, "ecs.hpcpni3.45xlarge")
    async with living_node(_Node, root, kubelet_dir, written) as made:
        yield made


def _devices(pod: Running) -> list[str]:
    return [device.path for device in pod.devices]


async def _seat(node: _Node, pod: Running) -> Any:  # noqa: ANN401 -- JSON
    """What the status says of a pod's one seat."""
    return next(one for one in (await node.pool())["seats"] if one["id"] == pod.seats[0])


async def _run(node: _Node, name: str, **facts: Any) -> Running:  # noqa: ANN401 -- of a request
    outcome = await node.kubelet.admit(PodRequest(name=name, **facts))
    assert isinstance(outcome, Running), outcome
    return outcome


async def _restarted(node: _Node, pod: Running) -> Running:
    """The pod's container, started again until it runs: on a busy machine a card may be silent for a moment."""
    outcomes: list[Running] = []

    async def runs() -> bool:
        outcome = await node.kubelet.restart_container(pod.pod)
        outcomes.extend([outcome] if isinstance(outcome, Running) else [])
        return bool(outcomes)

    await node.until_asked(runs)
    return outcomes[0]


async def _fill(node: _Node, count: int = 8) -> list[Running]:
    await node.allocatable(count)
    return [await _run(node, f"pod-{number}") for number in range(count)]


def _link(pod: Running) -> Path:
    """Where the runtime walks at the next start of the container."""
    return next(Path(mount.host_path).parent / "ib" for mount in pod.mounts if "alloc" in mount.host_path)


async def _unplug(node: _Node, seat: Any) -> Callable[[], None]:  # noqa: ANN401 -- JSON
    """Take the HCA of a seat away, as the kernel does; gives what puts it back."""
    classes = node.root / "sys/class"
    links = [classes / "infiniband" / seat["name"], classes / "infiniband_verbs" / seat["device"]]
    targets = [await asyncio.to_thread(link.readlink) for link in links]
    for link in links:
        await asyncio.to_thread(link.unlink)

    def put_back() -> None:
        for link, target in zip(links, targets, strict=True):
            link.symlink_to(target)

    return put_back


async def test_a_pod_gets_one_hca_and_nothing_of_the_others(node: _Node) -> None:
    """A pod finds its HCA's node and rdma_cm, and /status names the HCA that it holds (B-DP-50)."""
    async with node.served():
        await node.allocatable(8)
        pod = await _run(node, "train")
        await node.held_until(1)
        told = await _seat(node, pod)
        assert ["/dev/infiniband/rdma_cm", f"/dev/infiniband/{told['device']}"] == _devices(pod)
        assert [list(pod.seats)] == [one["seats"] for one in (await node.pool())["containers"]]
        assert "/run/railside/infiniband-rdma" in {mount.container_path for mount in pod.mounts}


async def test_nine_pods(node: _Node) -> None:
    """Eight pods get eight different HCAs, the ninth waits, and gets the HCA of the first that ends (B-DP-4)."""
    async with node.served():
        pods = await _fill(node)
        assert len({_devices(pod)[1] for pod in pods}) == 8
        ninth = await node.kubelet.admit(PodRequest(name="pod-8"))
        assert Pending(pod="pod-8", reason=f"0/1 nodes are available: 1 Insufficient {RESOURCE}.") == ninth
        await node.kubelet.remove("pod-3")
        assert _devices(pods[3]) == _devices(await _run(node, "pod-8"))


async def test_a_restart_of_the_agent_changes_no_pods_hca(node: _Node) -> None:
    """What containers have is the same after a restart, and one that starts again has its own (B-DP-23)."""
    async with node.served():
        await node.allocatable(8)
        pod = await _run(node, "train")
        await node.held_until(1)
        before = await node.pool()
    async with node.served():
        await node.allocatable(8)
        after = await node.pool()
        assert (before["containers"], before["seats"]) == (after["containers"], after["seats"])
        assert pod == await _restarted(node, pod)


async def test_an_hca_that_vanished_while_the_agent_was_away_keeps_its_seat(node: _Node) -> None:
    """A restart without one of the HCAs still lists all ids, and one of them as not to be had (B-DP-41)."""
    async with node.served():
        await node.allocatable(8)
        before = await node.pool()
    await _unplug(node, {"name": "mlx5_0", "device": "uverbs0"})
    async with node.served():
        await node.allocatable(7)
        after = await node.pool()
        assert [one["id"] for one in before["seats"]] == [one["id"] for one in after["seats"]]
        gone = next(one for one in after["seats"] if not one["listedHealthy"])
        assert (gone["held"], gone["reason"]["code"]) == (False, "SeatWithdrawn")


async def test_a_port_that_goes_down_and_comes_back(node: _Node) -> None:
    """A dead port takes one free seat out of the count, and it recovers by itself (B-DP-37, B-DP-38)."""
    async with node.served():
        await node.allocatable(8)
        await node.set_port("mlx5_4", "1: DOWN")
        await node.allocatable(7)
        await node.set_port("mlx5_4", "4: ACTIVE")
        await node.allocatable(8)
        assert {"an HCA is not sound", "an HCA is sound again"} <= set(node.written.events)


async def test_a_held_hca_that_falls_ill_hides_no_idle_one(node: _Node) -> None:
    """The seat of an ill HCA stays counted, and its container starts again on another of its zone (law 8)."""
    async with node.served():
        await node.allocatable(8)
        pod = await _run(node, "train")
        await node.held_until(1)
        name = (await _seat(node, pod))["name"]
        await node.set_port(name, "1: DOWN")
        await node.seat_until(pod, lambda seat: seat["reason"] is not None)
        told = await _seat(node, pod)
        assert (told["held"], told["listedHealthy"], told["reason"]["code"]) == (True, True, "NoActivePort")
        assert node.kubelet.status_of().allocatable == 8
        again = await node.kubelet.restart_container("train")
        assert isinstance(again, Running)
        assert (pod.seats, True) == (again.seats, _devices(pod) != _devices(again))


async def test_an_hca_that_dies_under_a_pod_of_a_full_node(node: _Node) -> None:
    """Its container waits with the reason, finds nothing, and has its HCA again when it is back (law 8)."""
    async with node.served():
        pod = (await _fill(node))[0]
        await node.held_until(8)
        name = (await _seat(node, pod))["name"]
        await node.set_port(name, "1: DOWN")
        await node.seat_until(pod, lambda seat: seat["reason"] is not None)
        waiting = await node.kubelet.restart_container("pod-0")
        assert isinstance(waiting, Pending)
        assert f"{name} is not sound (NoActivePort)" in waiting.reason
        assert not await asyncio.to_thread(_link(pod).is_symlink)
        await node.set_port(name, "4: ACTIVE")

        async def starts_again() -> bool:
            return await node.kubelet.restart_container("pod-0") == pod

        await node.until_asked(starts_again)


async def test_a_container_that_was_refused_finds_nothing(node: _Node) -> None:
    """Nothing of an earlier start is left to a container whose HCA has gone (law 9)."""
    async with node.served():
        pod = (await _fill(node))[0]
        await node.held_until(8)
        await _unplug(node, await _seat(node, pod))
        assert isinstance(await node.kubelet.restart_container("pod-0"), Pending)
        assert not await asyncio.to_thread(_link(pod).is_symlink)


async def test_an_hca_that_is_renumbered_is_laid_out_anew_at_the_next_look(node: _Node) -> None:
    """What was laid out under old numbers is laid out under the new ones, before any start, and told (law 9)."""
    async with node.served():
        await node.allocatable(8)
        pod = await _run(node, "train")
        await node.held_until(1)
        device = (await _seat(node, pod))["device"]
        now = DeviceNode(name=device, major=231, minor=250)
        # Just behind a look: one in the middle of it would find an HCA that is not complete, and withdraw alone.
        seen = (await node.until(lambda _: True)).machine
        await node.until(lambda view: view.machine is not seen)
        await asyncio.to_thread(_renumber, node.root, device, now)

        async def renewed() -> bool:
            return await asyncio.to_thread(StandInNodes().read, _link(pod) / device) == now

        await node.until_asked(renewed)

        async def told() -> bool:
            return "a container must be restarted" in node.written.events

        await node.until_asked(told)


def _renumber(root: Path, device: str, now: DeviceNode) -> None:
    """Both at one blow: in between a look would find an HCA that is not complete."""
    dev, node = root / f"sys/class/infiniband_verbs/{device}/dev", root / f"dev/infiniband/{device}"
    fresh = [one.with_name(f".{one.name}") for one in (dev, node)]
    fresh[0].write_text(f"{now.major}:{now.minor}\n")
    StandInNodes().make(fresh[1], now)
    for new, old in zip(fresh, (dev, node), strict=True):
        new.replace(old)


async def test_what_was_withdrawn_is_remembered_by_the_next_agent(node: _Node) -> None:
    """A pod whose HCA went away, and then the agent, has its HCA again when both are back (law 6, law 9)."""
    async with node.served():
        await node.allocatable(8)
        pod = await _run(node, "train")
        await node.held_until(1)
        put_back = await _unplug(node, await _seat(node, pod))

        async def withdrawn() -> bool:
            return not await asyncio.to_thread(_link(pod).is_symlink)

        await node.until_asked(withdrawn)
    await asyncio.to_thread(put_back)
    async with node.served():
        await node.allocatable(8)
        others = [await _run(node, f"pod-{number}") for number in range(7)]
        assert _devices(pod) not in [_devices(one) for one in others]
        assert pod == await _restarted(node, pod)


async def test_what_another_plugin_dealt_is_listed_and_its_hca_is_not_given_away(node: _Node) -> None:
    """An id that a pod holds from another plugin is healthy from the first list on, its HCA withheld (law 2)."""
    await node.hold_elsewhere("mlx5_9", 1, "uverbs8")
    async with node.served():
        await node.kubelet.until(lambda: node.kubelet.status_of().capacity == 8)
        foreign = next(one for one in node.kubelet.listed() if one.id == "mlx5_9")
        assert (foreign.healthy, foreign.numa) == (True, frozenset({1}))
        pool = await node.pool()
        assert [one["name"] for one in pool["hcas"] if one["withheld"]] == ["mlx5_9"]
        assert [one["id"] for one in pool["seats"] if one["foreign"]] == ["mlx5_9"]


async def test_an_unknown_answer_of_another_plugin_withholds_one_of_the_zone(node: _Node) -> None:
    """Where nobody can tell which HCA a pod of another plugin has, one of its NUMA node is withheld (law 2)."""
    await node.hold_elsewhere("mlx5_9", 1)
    async with node.served():
        await node.kubelet.until(lambda: node.kubelet.status_of().capacity == 8)
        pool = await node.pool()
        assert [one["zone"] for one in pool["hcas"] if one["withheld"]] == ["n1"]


async def test_another_plugins_ids_alone_register_nothing(node: _Node) -> None:
    """A node without HCAs of ours is left to the plugin whose ids its pods hold."""
    await node.hold_elsewhere("mlx5_9", 1)
    await asyncio.to_thread((node.root / "sys/class/infiniband").rename, node.root / "sys/class/hidden")
    async with node.served():
        told = await node.pool()
        assert ([one["id"] for one in told["seats"]], told["registration"]["registered"]) == (["mlx5_9"], False)
        assert node.kubelet.node_status() == {}


async def test_a_torn_checkpoint_forgets_nothing(node: _Node) -> None:
    """While the kubelet's checkpoint makes no sense, what was held is still taken for held."""
    async with node.served():
        await node.allocatable(8)
        pod = await _run(node, "train")
        await node.held_until(1)
        await asyncio.to_thread(node.checkpoint.write_bytes, b"{")

        async def complains() -> bool:
            return (await node.status())["checkpointProblem"] is not None

        await node.until_asked(complains)
        mine = (await _seat(node, pod))["name"]
        await node.set_port("mlx5_0" if mine != "mlx5_0" else "mlx5_3", "1: DOWN")
        await node.allocatable(7)
        assert ((await _seat(node, pod))["held"], (await _seat(node, pod))["name"]) == (True, mine)


async def test_bindings_are_recovered_where_the_state_was_forgotten(node: _Node) -> None:
    """Without its memory the agent goes by what is bound, and no seat changes its HCA (law 6)."""
    async with node.served():
        await node.allocatable(8)
        pods = [await _run(node, f"train-{number}") for number in range(3)]
        await node.held_until(3)
        before = {seat: (await _seat(node, pod))["hca"] for pod in pods for seat in pod.seats}
    await asyncio.to_thread((node.root / "var/lib/railside/seats-infiniband-rdma.json").unlink)
    async with node.served():
        await node.allocatable(8)
        told = {one["id"]: one["hca"] for one in (await node.pool())["seats"]}
        assert before == {seat: told[seat] for seat in before}


async def test_several_containers_share_an_hca(node: _Node) -> None:
    """In ib-shared-multi each HCA serves as many as is set; distinct ones come first (law 7, B-DP-4)."""
    node.configure(mode="ib-shared-multi", shares_per_hca=3)
    async with node.served():
        await node.allocatable(24)
        wide = await _run(node, "wide", count=4)
        assert len(_devices(wide)) == 5
        pods = [await _run(node, f"pod-{number}", count=4) for number in range(5)]
        full = await node.kubelet.admit(PodRequest(name="late"))
        assert isinstance(full, Pending)
        await node.held_until(6)
        assert {one["users"] for one in (await node.pool())["hcas"]} == {3}
        assert {len(_devices(pod)) for pod in pods} == {5}


async def test_a_mode_switch_hurts_no_pod(node: _Node) -> None:
    """From several to one an HCA, running pods keep theirs, and just the idle HCAs are offered (law 7)."""
    node.configure(mode="ib-shared-multi", shares_per_hca=2)
    async with node.served():
        await node.allocatable(16)
        pods = [await _run(node, f"pod-{number}") for number in range(3)]
        await node.held_until(3)
    node.configure(mode="ib-shared")
    async with node.served():
        await node.held_until(3)
        pool = await node.pool()
        idle = sum(one["users"] == 0 for one in pool["hcas"])
        await node.allocatable(3 + idle)
        assert pods == [await _restarted(node, pod) for pod in pods]


async def test_two_pools_on_one_node(node: _Node) -> None:
    """InfiniBand and Ethernet devices stand behind two resources, and neither pool gives the other's away."""
    roce = PoolSettings(resource="example.com/roce", link_layer="Ethernet")
    # The embedded kubelet writes down the hints of one resource alone.
    node.configure(pools=(PoolSettings(), roce), advertise_topology="never")
    async with node.served():
        await node.allocatable(8)
        await node.kubelet.until(lambda: node.kubelet.status_of("example.com/roce").allocatable == 1)
        bonded = await _run(node, "storage", resource="example.com/roce")
        pods = [await _run(node, f"pod-{number}") for number in range(8)]
        assert _devices(bonded) == ["/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs1"]
        assert len({_devices(pod)[1] for pod in pods} - {"/dev/infiniband/uverbs1"}) == 8
        first, second = (await node.status())["pools"]
        assert ([len(one["hcas"]) for one in (first, second)], second["pool"]["resource"]) == (
            [8, 1],
            "example.com/roce",
        )
        assert bonded == await _restarted(node, bonded)


async def test_hcas_that_are_bound_at_allocate(node: _Node) -> None:
    """For runtimes that refuse folders the answer names the nodes, and eight pods still get eight HCAs."""
    node.configure(binding="allocate")

    async def all_sound() -> bool:
        return [one["reason"] for one in (await node.pool())["hcas"]] == [None] * 8

    async with node.served():
        pods = await _fill(node)
        assert len({device for pod in pods for device in _devices(pod)}) == 9
        await node.held_until(8)
    async with node.served():
        await node.held_until(8)
        await node.until_asked(all_sound)
        assert pods == [await _restarted(node, pod) for pod in pods]
        name = (await _seat(node, pods[0]))["name"]
        await node.set_port(name, "1: DOWN")
        await node.seat_until(pods[0], lambda seat: seat["reason"] is not None)
        waiting = await node.kubelet.restart_container("pod-0")
        assert isinstance(waiting, Pending)
        assert "is not sound" in waiting.reason


async def test_what_is_left_out_is_told(node: _Node) -> None:
    """The bond that speaks Ethernet stands in the status and in the log with its reason (B-DP-5)."""
    async with node.served():
        told = await node.status()
        assert [(one["name"], one["reason"]["code"]) for one in told["machine"]["excluded"]] == [
            ("mlx5_bond_0", "EthernetLink")
        ]
        assert "EthernetLink" in {line.get("reason") for line in node.written.lines}


async def test_a_node_without_hcas_is_ready_and_not_registered(node: _Node) -> None:
    """With nothing to offer the agent is ready, says why, and pushes no other plugin aside (B-DP-15, B-DP-45)."""
    hidden = node.root / "sys/class/hidden"
    await asyncio.to_thread((node.root / "sys/class/infiniband").rename, hidden)
    async with node.served():
        told = await node.status()
        assert (told["nothingOffered"]["code"], (await node.pool())["registration"]["registered"]) == (
            "NoRdmaDevices",
            False,
        )
        assert node.kubelet.node_status() == {}
        await asyncio.to_thread(hidden.rename, node.root / "sys/class/infiniband")
        await node.allocatable(8)
