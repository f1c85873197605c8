import asyncio
import contextlib
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.situations import POOL, RULES, beside, binding, rules
from tests.unit.builders import ONE_HCA, TWO_NUMA, LogLines, hca, machine, port, tree

from railside_agent.allocations import Allocations
from railside_agent.binding import Bound, Refused
from railside_agent.checkpoint_watch import CheckpointWatch
from railside_agent.container_edits import Style, allocation_key
from railside_agent.device_dirs import DeviceDirectories
from railside_agent.flight_log import Began
from railside_agent.holders import Checkpoint
from railside_agent.housekeeping import RETRY_SECONDS, TwoLooks
from railside_agent.inventory import Inventory, Look
from railside_agent.mode import Configured
from railside_agent.offering import Offering
from railside_agent.outlook import Outlook
from railside_agent.own_node import NodeFacts
from railside_agent.pod_resources import ClaimedDevice, ContainerHolding, NodeHoldings
from railside_agent.pods import Pod, Pods
from railside_agent.pool_rules import PoolRules
from railside_agent.port_states import PortStates
from railside_agent.raw_machine import RawMachine
from railside_agent.recorder import Recorder
from railside_agent.rules import Rules
from railside_agent.seats import HELD_HEALTHY_SECONDS, Books, Offer
from railside_agent.sight import Clock, Sight
from railside_agent.situation import Listed
from railside_agent.starts import ContainerStarts
from railside_agent.state_file import Remembered, StateFile
from railside_agent.sysfs import read_port_states
from railside_proto.machine import DeviceNode, Hca, PortState
from railside_proto.names import DEVICE_PLUGINS, KUBELET_CHECKPOINT, RESOURCE
from railside_proto.pool import Binding, Mode
from railside_proto.reasons import Code
from railside_proto.record import KubeletFacts, Source, TopologyPolicy
from railside_runtime.cell import Cell
from railside_sim.stand_in_nodes import StandInNodes

_SECONDS = 5
_NONE = KubeletFacts(source=Source.CONFIGZ, topology_policy=TopologyPolicy.NONE)
_RESTRICTED = KubeletFacts(source=Source.CONFIGZ, topology_policy=TopologyPolicy.RESTRICTED)


def _never_begun(at: str) -> Began:
    raise AssertionError(f"nothing is kept, and a file was begun at {at}")


class _Kernel(StandInNodes):
    """Answers at once, or only when it is released."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()

    def read(self, path: Path) -> DeviceNode | None:
        self.answers.wait(_SECONDS)
        return super().read(path)


class _SlowState(StateFile):
    """A disk that hangs until it is released."""

    released: threading.Event

    def recall(self) -> Remembered:
        self.released.wait(_SECONDS)
        return super().recall()


class _FullDisk(StateFile):
    """A disk that takes nothing, and tells when it was asked for the third time."""

    refusals = 0
    told: Callable[[], object]

    def remember(self, remembered: Remembered) -> bool:
        del remembered
        self.refusals += 1
        if self.refusals == 3:
            self.told()
        return False


class _SlowCheckpoint(CheckpointWatch):
    """A disk that hangs for a moment: who does not wait for it learns nothing."""

    released: asyncio.Event

    async def read_now(self) -> bytes | None:
        return await super().read_now() if self.released.is_set() else None

    async def read_patiently(self) -> bytes | None:
        await self.released.wait()
        return await super().read_patiently()


class _Stage:
    """An offering on a machine whose looks, checkpoint and cluster a test sets."""

    def __init__(
        self,
        root: Path,
        written: LogLines,
        *,
        mode: Configured = "ib-shared",
        by: Rules = RULES,
        clock: Clock | None = None,
        collect_seconds: float = 3600,
    ) -> None:
        self.root = root
        self.log = written.log
        self.kernel = _Kernel()
        self.now = 0.0
        self._collect_seconds = collect_seconds
        self.restarted: list[Binding] = []
        self.calm = asyncio.Event()
        self.calm.set()
        self.checkpoint = CheckpointWatch(root, written.log)
        self.inventory = Inventory(
            root,
            self.kernel,
            ports=PortStates(partial(read_port_states, root), written.log),
            resync_seconds=3600,
            log=written.log,
        )
        self.node = Cell(NodeFacts())
        self.pods = Cell(Pods())
        sight = Sight(
            root,
            self.kernel,
            inventory=self.inventory,
            checkpoint=self.checkpoint,
            node=self.node,
            pods=self.pods,
            holdings=Cell(None),
            clock=clock or (lambda: self.now),
        )
        rules = PoolRules(pool=POOL, mode=mode, rules=by)
        self.outlook = Outlook(rules, sight, Recorder(root, bytes_at_most=0, began=_never_begun, log=written.log))
        self.allocations = Allocations(
            POOL,
            Style(),
            DeviceDirectories(root, self.kernel, POOL),
            in_flight=self.outlook.in_flight,
            replayed=False,
            log=written.log,
        )
        self.starts = ContainerStarts(
            root, self.allocations, outlook=self.outlook, told=lambda _: None, log=written.log
        )
        self.state = StateFile(root, POOL, written.log)
        self.offering = self._offering()

    def _offering(self) -> Offering:
        return Offering(
            self.outlook,
            allocations=self.allocations,
            state=self.state,
            restart=self.restarted.append,
            calm=self.calm.wait,
            log=self.log,
            collect_seconds=self._collect_seconds,
        )

    def with_state(self, state: StateFile) -> None:
        self.state = state
        self.offering = self._offering()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Cell[Offer]]:
        task = asyncio.create_task(self.offering.run())
        try:
            async with asyncio.timeout(_SECONDS):
                yield self.offering.offer
        finally:
            task.cancel()
            await asyncio.wait([task])

    def see(self, *hcas: Hca) -> None:
        """A look at the machine finds ``hcas``."""
        self.now += 1
        self.inventory.latest.set(Look(machine=machine(*hcas), raw=RawMachine(), at=self.now))

    async def hold(self, **pods: str) -> None:
        """The kubelet writes that pods hold seats, ``_`` for ``-``, at their zone's node 0."""
        entries = [
            {
                "PodUID": pod,
                "ContainerName": "main",
                "ResourceName": RESOURCE,
                "DeviceIDs": {"0": [seat]},
                "AllocResp": "",
            }
            for pod, seat in pods.items()
        ]
        data = {"PodDeviceEntries": entries, "RegisteredDevices": {}}
        content = msgspec.json.encode({"Data": data, "Checksum": 1})
        await asyncio.to_thread(_write, self.root / DEVICE_PLUGINS / KUBELET_CHECKPOINT, content)
        await self.checkpoint.read_now()

    async def bound(self, pod: str, seat: str, to: Hca) -> Path:
        """An earlier run has bound a container; returns its folder."""
        given = {
            "address": to.address,
            "name": to.name,
            "nodeGuid": to.node_guid,
            "numaNode": to.numa_node,
            "device": f"/dev/infiniband/{to.uverbs.name}",
        }
        folder = self.root / "run/railside/alloc" / allocation_key(POOL, (seat,))
        told = {"seats": [seat], "pod": pod, "hcas": [given]}
        await asyncio.to_thread(_write, folder / "info/allocation.json", json.dumps(told).encode())
        return folder

    async def remembered(self) -> Remembered:
        """What the next run would know."""
        return await asyncio.to_thread(StateFile(self.root, POOL, self.log).recall)

    async def until_written(self, count: int) -> None:
        """Wait until ``count`` ids are in the file, which is written behind all other housekeeping."""
        while len((await self.remembered()).books.listed) != count:
            await asyncio.to_thread(os.sched_yield)

    async def until_remembered(self, mode: Mode | None) -> Remembered:
        """Wait until the file has ``mode``: it is written behind the list."""
        while (found := await self.remembered()).mode is not mode:
            await asyncio.to_thread(os.sched_yield)
        return found


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.fixture
def stage(tmp_path: Path, written: LogLines) -> _Stage:
    return _Stage(tmp_path, written)


def _health(offer: Offer) -> dict[str, bool]:
    return {one.seat.id: one.healthy for one in offer.seats}


async def test_what_is_known_is_offered_while_the_first_look_hangs(tmp_path: Path, written: LogLines) -> None:
    """Remembered seats and held ids are listed at once: the kubelet waits 1.2 s for them (law 1, law 3)."""
    stage = _Stage(await asyncio.to_thread(tree, TWO_NUMA + ONE_HCA, tmp_path), written)
    await stage.hold(p="theirs", q="n0-s1")
    books = Books(hinted=True, listed=(Listed(id="n0-s0", numa_nodes=(0,)),))
    await asyncio.to_thread(stage.state.remember, Remembered(books=books))
    stage.kernel.answers.clear()
    looking = asyncio.create_task(stage.inventory.run())
    async with stage.running() as offer, asyncio.timeout(1.2):
        listed = await offer.until(lambda now: bool(now.seats))
    stage.kernel.answers.set()
    looking.cancel()
    await asyncio.wait([looking])
    assert _health(listed) == {"n0-s0": False, "n0-s1": True, "theirs": True}
    assert stage.inventory.latest.value is None


async def test_nothing_is_listed_before_the_disk_answers(stage: _Stage, written: LogLines) -> None:
    """A disk that hangs is waited for: a list without the ids that pods hold would cost the kubelet its life."""
    slow = _SlowState(stage.root, POOL, written.log)
    slow.released = threading.Event()
    books = Books(hinted=True, listed=(Listed(id="n0-s5", numa_nodes=(0,), held=True),))
    await asyncio.to_thread(slow.remember, Remembered(books=books))
    stage.with_state(slow)
    stage.see(hca(1))
    async with stage.running() as offer:
        await stage.checkpoint.latest.until(lambda content: content is not None)
        before = offer.value
        slow.released.set()
        after = await offer.until(lambda now: bool(now.seats))
    assert (Offer(), True) == (before, "n0-s5" in _health(after))


async def test_nothing_is_listed_before_the_checkpoint_is_read(stage: _Stage, written: LogLines) -> None:
    """The first list has the ids that pods hold, however long the kubelet's file takes to read (law 1, law 6)."""
    await stage.hold(p="n0-s5")
    slow = _SlowCheckpoint(stage.root, written.log)
    slow.released = asyncio.Event()
    stage.outlook.sight.checkpoint = slow
    stage.see(hca(1))
    asyncio.get_running_loop().call_later(0.05, slow.released.set)
    async with stage.running() as offer:
        first = await offer.until(lambda now: bool(now.seats))
    assert "n0-s5" in _health(first)


async def test_each_change_makes_the_list_anew(stage: _Stage) -> None:
    """Looks, the kubelet's writing and ends of pods are each seen by themselves (law 7)."""
    async with stage.running() as offer:
        stage.see(hca(1), hca(2))
        await offer.until(lambda now: _health(now) == {"n0-s0": True, "n0-s1": True})
        await stage.hold(p="n0-s0")
        await offer.until(lambda now: any(one.held for one in now.seats))
        stage.outlook.in_flight.set({"n0-s1": 1})
        await offer.until(lambda now: sum(one.held for one in now.seats) == 2)
        stage.outlook.in_flight.set({})
        pod = Pod(uid="p", name="train", namespace="ml", ended=True, terminating=False)
        stage.pods.set(Pods(pods=(pod,), by_uid={"p": pod}))
        await offer.until(lambda now: not any(one.held for one in now.seats))


def _torn(path: Path) -> None:
    path.write_bytes(b"")


def _garbled(path: Path) -> None:
    path.write_bytes(b"{")


_SPOILS = pytest.mark.parametrize("spoil", [_torn, _garbled, Path.unlink], ids=["torn", "garbled", "missing"])


async def _spoil(stage: _Stage, spoil: Callable[[Path], None]) -> None:
    await asyncio.to_thread(spoil, stage.root / DEVICE_PLUGINS / KUBELET_CHECKPOINT)
    await stage.checkpoint.read_now()


def _held(offer: Offer) -> list[str]:
    return [one.seat.id for one in offer.seats if one.held]


@_SPOILS
async def test_in_doubt_nothing_is_let_go(
    tmp_path: Path, written: LogLines, spoil: Callable[[Path], None]
) -> None:
    """Beside a checkpoint that cannot be trusted what is held stays so, and no folder goes, until one can be."""
    stage = _Stage(tmp_path, written, collect_seconds=0.02)
    await stage.hold(p="n0-s0")
    folder = await stage.bound("p", "n0-s0", hca(1))
    await asyncio.to_thread(os.utime, folder, (0, 0))
    stage.see(hca(1), hca(2))
    async with stage.running() as offer:
        await offer.until(lambda now: _held(now) == ["n0-s0"])
        await _spoil(stage, spoil)
        stage.outlook.in_flight.set({"n0-s1": 1})
        await offer.until(lambda now: _held(now) == ["n0-s0", "n0-s1"])
        stage.outlook.in_flight.set({})
        stage.see(hca(1), hca(2), hca(3))
        doubted = await offer.until(lambda now: len(now.seats) == 3)
        await stage.until_written(3)
        there = await asyncio.to_thread(folder.exists)
        await stage.hold(q="n0-s2")
        await offer.until(lambda now: _held(now) == ["n0-s2"])
        await stage.allocations.bindings.until(lambda now: not now)
    assert (_held(doubted), there) == (["n0-s0", "n0-s1"], True)


@_SPOILS
async def test_an_agent_that_starts_in_doubt_lets_nothing_go(stage: _Stage, spoil: Callable[[Path], None]) -> None:
    """Without any checkpoint that it could trust an agent takes what is bound for held (law 6)."""
    await stage.hold(p="n0-s0")
    folder = await stage.bound("p", "n0-s0", hca(1))
    await asyncio.to_thread(os.utime, folder, (0, 0))
    await _spoil(stage, spoil)
    stage.see(hca(1), hca(2))
    async with stage.running() as offer:
        made = await offer.until(lambda now: len(now.seats) == 2)
        await stage.until_written(2)
    assert (_held(made), await asyncio.to_thread(folder.exists)) == (["n0-s0"], True)


@_SPOILS
async def test_a_start_in_doubt_gets_what_its_seat_had(stage: _Stage, spoil: Callable[[Path], None]) -> None:
    """Whose container it is nobody knows then: a bound seat means its HCA, and no other seat gets that (law 7)."""
    await asyncio.to_thread(tree, TWO_NUMA + ONE_HCA, stage.root)
    await stage.inventory.look()
    await stage.hold(p="n0-s0")
    first = await stage.starts.start(("n0-s0",))
    await _spoil(stage, spoil)
    again = await stage.starts.start(("n0-s0",))
    other = await stage.starts.start(("n0-s1",))
    assert isinstance(first, Bound)
    assert isinstance(again, Bound)
    assert isinstance(other, Refused)
    assert (("p", None), first.hcas) == ((first.pod, again.pod), again.hcas)
    assert other.reason.code is Code.NO_FREE_HCA


async def test_a_checkpoint_that_was_never_written_is_no_doubt(stage: _Stage) -> None:
    """On a fresh node, where nothing is held or bound, a missing file says that nothing was ever dealt."""
    await stage.checkpoint.read_now()
    assert Checkpoint() == stage.outlook.trusted(())
    assert stage.outlook.trusted((binding("p", n0_s0=1),)) is None


async def test_a_new_list_waits_for_containers_that_wait_for_an_answer(stage: _Stage) -> None:
    """While a call of the kubelet is under way no list is made, and behind it one is made of all that came."""
    async with stage.running() as offer:
        stage.see(hca(1))
        await offer.until(lambda now: _health(now) == {"n0-s0": True})
        stage.calm.clear()
        stage.see(hca(1), hca(2))
        await stage.hold(p="n0-s0")
        during = offer.value
        stage.calm.set()
        await offer.until(lambda now: [one.held for one in now.seats] == [True, False])
    assert _health(during) == {"n0-s0": True}


async def test_the_list_changes_by_itself_in_time(tmp_path: Path, written: LogLines) -> None:
    """An HCA that has been well for long enough comes back without anybody's telling (B-DP-38)."""
    stage = _Stage(tmp_path, written, by=rules(recovery_seconds=0.3), clock=time.monotonic)
    async with stage.running() as offer:
        stage.see(hca(1))
        await offer.until(lambda now: _health(now) == {"n0-s0": True})
        stage.see(hca(1, ports=(port(PortState.DOWN),)))
        ill = await offer.until(lambda now: _health(now) == {"n0-s0": False})
        stage.see(hca(1))
        well = await offer.until(lambda now: now.usage is not None and now.usage != ill.usage)
        await offer.until(lambda now: _health(now) == {"n0-s0": True})
    assert _health(well) == {"n0-s0": False}


async def test_the_last_mode_is_remembered(tmp_path: Path, written: LogLines) -> None:
    """While the label cannot be read the last mode goes on; once it is read it counts, and is written down."""
    stage = _Stage(tmp_path, written, mode="label")
    await asyncio.to_thread(stage.state.remember, Remembered(mode=Mode.IB_SHARED_MULTI))
    stage.see(hca(1))
    async with stage.running() as offer:
        many = await offer.until(lambda now: bool(now.seats))
        stage.node.set(NodeFacts(seen=True, mode_label="ib-shared"))
        one = await offer.until(lambda now: sum(_health(now).values()) == 1)
        remembered = await stage.until_remembered(Mode.IB_SHARED)
    assert (POOL.shares_per_hca, POOL.shares_per_hca) == (len(many.seats), len(one.seats))
    assert {one.id for one in remembered.books.listed} == set(_health(one))


async def test_what_was_listed_is_written_down(stage: _Stage) -> None:
    """The ids of the list outlive the agent (law 6)."""
    stage.see(hca(1))
    async with stage.running() as offer:
        await offer.until(lambda now: bool(now.seats))
        remembered = await stage.until_remembered(Mode.IB_SHARED)
    assert (Listed(id="n0-s0", numa_nodes=(0,)),) == remembered.books.listed


@pytest.mark.parametrize(
    ("looks", "kept"),
    [
        pytest.param(["ab"], None, id="the-first-look"),
        pytest.param(["ab", "ab"], "ab", id="as-before"),
        pytest.param(["ab", "a"], "ab", id="one-is-missing-once"),
        pytest.param(["ab", "a", "a"], "a", id="one-is-missing-twice"),
        pytest.param(["ab", "", "ab"], "ab", id="all-were-missing-once"),
        pytest.param(["ab", None], None, id="in-doubt"),
        pytest.param(["ab", None, ""], None, id="the-first-look-behind-a-doubt"),
    ],
)
def test_what_one_look_does_not_name_stays(looks: list[str | None], kept: str | None) -> None:
    """A checkpoint that is wrong for a moment costs no running container its folder."""
    two = TwoLooks()
    told = [two.kept(None if look is None else frozenset((seat,) for seat in look)) for look in looks]
    assert told[-1] == (None if kept is None else {(seat,) for seat in kept})


async def test_folders_of_ended_containers_are_taken_away(tmp_path: Path, written: LogLines) -> None:
    """What the kubelet's checkpoint does not name any more goes, what it names stays."""
    stage = _Stage(tmp_path, written, collect_seconds=0.02)
    await stage.hold(p="n0-s0", q="n0-s1")
    folders = [await stage.bound("p", "n0-s0", hca(1)), await stage.bound("q", "n0-s1", hca(2))]
    for folder in folders:
        await asyncio.to_thread(os.utime, folder, (0, 0))
    async with stage.running():
        await stage.allocations.bindings.until(lambda now: len(now) == 2)
        await stage.hold(p="n0-s0")
        await stage.allocations.bindings.until(lambda now: [one.seats for one in now] == [("n0-s0",)])
    assert [await asyncio.to_thread(folder.exists) for folder in folders] == [True, False]


async def test_who_runs_on_what_has_changed_is_told(stage: _Stage) -> None:
    """A container whose HCA is renumbered under it is told of once, and laid out anew (law 9)."""
    root = await asyncio.to_thread(tree, TWO_NUMA + ONE_HCA, stage.root)
    await stage.inventory.look()
    look = stage.inventory.latest.value
    assert look is not None
    (real,) = look.machine.hcas
    await stage.hold(p="n0-s0")
    await stage.starts.start(("n0-s0",))
    renumbered = msgspec.structs.replace(real, uverbs=DeviceNode(name="uverbs7", major=231, minor=199))
    link = root / "run/railside/alloc" / allocation_key(POOL, ("n0-s0",)) / "ib"
    async with stage.running() as offer:
        await offer.until(lambda now: bool(now.seats))
        stage.see(renumbered)
        while not stage.restarted:
            await asyncio.to_thread(os.sched_yield)
        stage.see(renumbered)
        await stage.hold(p="n0-s0", q="n0-s7")
        await offer.until(lambda now: "n0-s7" in _health(now))
    assert (1, (real.address,)) == (len(stage.restarted), stage.restarted[0].hcas)
    assert await asyncio.to_thread((link / "uverbs7").exists)


async def test_the_first_list_waits_a_moment_for_the_policy(tmp_path: Path, written: LogLines) -> None:
    """What is dealt with hints keeps them, so the first list is not made before the kubelet has told (law 4)."""
    stage = _Stage(tmp_path, written)
    asked, told = asyncio.Event(), asyncio.Event()

    async def heard() -> None:
        asked.set()
        await told.wait()

    stage.outlook.sight.kubelet_heard = heard
    stage.see(hca(1))
    async with stage.running() as offer:
        await asked.wait()
        before = offer.value
        stage.outlook.sight.kubelet.set(_NONE)
        told.set()
        first = await offer.until(lambda now: bool(now.seats))
    assert (Offer(), {"any-s0": True}) == (before, _health(first))


async def test_a_policy_that_nobody_tells_is_not_waited_for(tmp_path: Path, written: LogLines) -> None:
    """Behind a moment the list is made as under the document's policy, and made anew when another is told."""
    stage = _Stage(tmp_path, written)
    stage.outlook.sight.kubelet_heard = asyncio.Event().wait
    stage.see(hca(1))
    async with stage.running() as offer:
        first = await offer.until(lambda now: bool(now.seats))
        stage.outlook.sight.kubelet.set(_NONE)
        second = await offer.until(lambda now: now != first)
    assert (_health(first), _health(second)) == ({"n0-s0": True}, {"any-s0": True, "n0-s0": False})


async def test_the_policy_is_remembered(stage: _Stage) -> None:
    """An agent that starts anew lists as under the policy that was told last, and waits for nobody (law 4)."""
    books = Books(hinted=False, listed=(Listed(id="any-s0"),))
    await asyncio.to_thread(stage.state.remember, Remembered(policy=TopologyPolicy.NONE, books=books))
    stage.outlook.sight.kubelet_heard = asyncio.Event().wait
    stage.see(hca(1))
    async with stage.running() as offer:
        first = await offer.until(lambda now: bool(now.seats))
        stage.outlook.sight.kubelet.set(_RESTRICTED)
        await offer.until(lambda now: "n0-s0" in _health(now))
        while (await stage.remembered()).policy is not TopologyPolicy.RESTRICTED:
            await asyncio.to_thread(os.sched_yield)
    assert _health(first) == {"any-s0": True}


async def test_held_seats_wait_for_no_policy(stage: _Stage) -> None:
    """What pods hold must be at the kubelet in time, whatever is not known yet (law 3)."""
    stage.outlook.sight.kubelet_heard = asyncio.Event().wait
    await stage.hold(p="n0-s0")
    async with stage.running() as offer, asyncio.timeout(1.2):
        listed = await offer.until(lambda now: bool(now.seats))
    assert _health(listed) == {"n0-s0": True}


async def test_bindings_of_an_earlier_run_count_from_the_first_list(stage: _Stage) -> None:
    """An agent that starts anew never lists a bound HCA as free (law 6, law 7)."""
    await stage.hold(p="n0-s0")
    await stage.bound("p", "n0-s0", hca(1))
    stage.see(hca(1))
    async with stage.running() as offer:
        first = await offer.until(lambda now: bool(now.seats))
    (seat,) = first.seats
    assert (seat.seat.id, seat.healthy, seat.hca) == ("n0-s0", True, hca(1).address)
    assert (binding("p", n0_s0=1),) == stage.allocations.bindings.value


async def test_a_container_whose_folder_was_lost_keeps_its_hca_to_itself(stage: _Stage) -> None:
    """What an earlier run bound counts though somebody has emptied /run/railside under its pod (law 7)."""
    await asyncio.to_thread(tree, TWO_NUMA + ONE_HCA, stage.root)
    found = await stage.inventory.look()
    await stage.hold(p="n0-s0")
    bound = Binding(seats=("n0-s0",), hcas=(found.hcas[0].address,), pod="p")
    await asyncio.to_thread(stage.state.remember, Remembered(bindings=(bound,)))
    async with stage.running() as offer:
        listed = await offer.until(lambda now: bool(now.seats))
        started = await stage.starts.start(("n0-s1",))
    assert isinstance(started, Refused)
    assert (_held(listed), started.reason.code) == (["n0-s0"], Code.NO_FREE_HCA)


async def test_a_torn_checkpoint_ends_nothing(stage: _Stage) -> None:
    """Lists go on to be made while the kubelet's file makes no sense, and what is held stays (law 6)."""
    await stage.hold(p="n0-s0")
    async with stage.running() as offer:
        stage.see(hca(1))
        await offer.until(lambda now: len(now.seats) == 1)
        await asyncio.to_thread((stage.root / DEVICE_PLUGINS / KUBELET_CHECKPOINT).write_bytes, b"{")
        await stage.checkpoint.read_now()
        stage.see(hca(1), hca(2))
        torn = await offer.until(lambda now: len(now.seats) == 2)
        # What is kept in order behind the list goes on, too.
        while len((await stage.remembered()).books.listed) != 2:
            await asyncio.to_thread(os.sched_yield)
    assert [one.seat.id for one in torn.seats if one.held] == ["n0-s0"]


async def test_how_long_the_kubelet_has_listened_counts(tmp_path: Path, written: LogLines) -> None:
    """By setting the kubelet is told of an ill HCA in hands, once it has admitted its pods anew (law 3, law 8)."""
    stage = _Stage(tmp_path, written, by=rules(report_held_unhealthy=True))
    await stage.hold(p="n0-s0")
    await stage.bound("p", "n0-s0", hca(1))
    stage.now = HELD_HEALTHY_SECONDS + 1
    async with stage.running() as offer:
        stage.see(hca(1, ports=(port(PortState.DOWN),)))
        await offer.until(lambda now: _health(now) == {"n0-s0": True})
        stage.outlook.heard.set(0.0)
        await offer.until(lambda now: _health(now) == {"n0-s0": False})


async def test_a_deal_that_was_shown_is_not_on_its_way_again(stage: _Stage) -> None:
    """A pod that has come and gone within seconds leaves its seat free at once (law 7)."""
    await stage.hold(q="n0-s5")
    stage.outlook.in_flight.set({"n0-s0": 1})
    seen = []
    for pods in ({"q": "n0-s5"}, {"p": "n0-s0"}, {"q": "n0-s5"}):
        await stage.hold(**pods)
        seen.append(stage.outlook.evidence(()).situation.in_flight)
    assert seen == [{"n0-s0"}, frozenset(), frozenset()]


async def test_a_start_waits_a_moment_for_the_pods(stage: _Stage) -> None:
    """An agent that has just started does not decide before it knows what pods insist on, and who lives."""
    told = asyncio.Event()
    stage.outlook.sight.pods_heard = told.wait
    await asyncio.to_thread(tree, TWO_NUMA + ONE_HCA, stage.root)
    await stage.hold(p="n0-s0")
    start = asyncio.create_task(stage.starts.start(("n0-s0",)))
    await asyncio.wait([start], timeout=0.1)
    waited = not start.done()
    told.set()
    assert (waited, isinstance(await start, Bound)) == (True, True)


@_SPOILS
async def test_in_doubt_nobody_is_named(stage: _Stage, spoil: Callable[[Path], None]) -> None:
    """Which folders may go is told by a checkpoint that can be trusted, and by the API server's living pods."""
    bound = (binding("p", n0_s0=1), binding("q", n0_s1=2))
    living = Pod(uid="q", name="train", namespace="ml", ended=False, terminating=False)
    stage.pods.set(Pods(pods=(living,), by_uid={"q": living}, synced=True))
    await stage.hold(r="n0-s5")
    named = stage.outlook.named(bound)
    await _spoil(stage, spoil)
    assert sorted(named or ()) == [("n0-s1",), ("n0-s5",)]
    assert stage.outlook.named(bound) is None


async def test_a_pod_that_lives_keeps_its_hca_though_the_checkpoint_was_lost(stage: _Stage) -> None:
    """A kubelet that lost its checkpoint writes one without the running pods; the API server has them, or had."""
    bound = (binding("p", n0_s0=1), binding("over", n0_s1=2))
    living = Pod(uid="p", name="train", namespace="ml", ended=False, terminating=False)
    over = msgspec.structs.replace(living, uid="over", ended=True)
    by_uid = {"p": living, "over": over}
    stage.see(hca(1), hca(2))
    await stage.hold()
    known = [
        Pods(pods=(living, over), by_uid=by_uid, synced=True),
        Pods(pods=(living, over), by_uid=by_uid, synced=True, problem="the API server is away"),
    ]
    for pods in known:
        stage.pods.set(pods)
        assert stage.outlook.evidence(bound).situation.alive == {"p"}
        made, _ = stage.outlook.list_now(bound)
        assert _health(made) == {"n0-s0": False, "n0-s1": True}


def test_gpus_of_resource_claims_are_held(stage: _Stage) -> None:
    """What the checkpoint of device plugins does not show of GPUs comes from the kubelet's own account."""
    gpu = msgspec.structs.replace(beside(1), index=3)
    stage.inventory.latest.set(Look(machine=machine(hca(1), gpus=(gpu,)), raw=RawMachine(), at=0.0))
    claim = ClaimedDevice(claim="c", namespace="ml", driver="gpu.nvidia.com", pool="n1", device="gpu-3")
    holding = ContainerHolding(namespace="ml", pod="train", container="main", claimed=(claim,))
    stage.outlook.sight.holdings.set(NodeHoldings(containers=(holding,), allocatable=None))
    assert stage.outlook.evidence(()).situation.claimed_gpus == {gpu.address}


@pytest.mark.looptime
async def test_a_disk_that_refuses_is_asked_again(stage: _Stage, written: LogLines) -> None:
    """What could not be written down is tried again, though nothing happens meanwhile (law 6)."""
    disk = _FullDisk(stage.root, POOL, written.log)
    asked = asyncio.Event()
    disk.told = partial(asyncio.get_running_loop().call_soon_threadsafe, asked.set)
    stage.with_state(disk)
    stage.see(hca(1))
    listing = asyncio.create_task(stage.offering.run())
    async with asyncio.timeout(1000 * RETRY_SECONDS):
        await asked.wait()
    listing.cancel()
    await asyncio.wait([listing])
