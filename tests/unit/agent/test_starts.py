import asyncio
import os
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.bench import LONGEST_BLOCK_SECONDS, SEATS, Bench, FullDisk
from tests.unit.agent.situations import POOL, binding, entry, placed, situation
from tests.unit.builders import LogLines, hca, machine, port

from railside_agent.allocations import IN_FLIGHT_SECONDS
from railside_agent.binding import Bound, Refused
from railside_agent.container_edits import ContainerEdits, allocation_key
from railside_agent.holders import Checkpoint
from railside_proto.machine import Machine, PortState
from railside_proto.pool import Binding
from railside_proto.reasons import Code

_ILL = placed(1, ports=(port(PortState.DOWN),))
_RENAMED = placed(1, name="mlx5_7", uverbs=hca(7).uverbs)


@pytest.fixture
def bench(tmp_path: Path, written: LogLines) -> Bench:
    return Bench(tmp_path, written)


def _code(outcome: object) -> Code | None:
    return outcome.reason.code if isinstance(outcome, Refused) else None


# Dealing


@pytest.mark.looptime
async def test_dealt_seats_are_in_flight_for_a_while(bench: Bench) -> None:
    """From Allocate on seats count as held, until the kubelet's checkpoint must show them (law 5)."""
    began = asyncio.get_running_loop().time()
    await bench.starts.deal(SEATS)
    at_once = bench.in_flight.value
    await bench.in_flight.until(lambda seats: not seats)
    lasted = asyncio.get_running_loop().time() - began
    assert set(SEATS) == at_once.keys()
    assert abs(lasted - IN_FLIGHT_SECONDS) < 0.1


async def test_a_dealt_container_has_a_folder_and_nothing_in_it(bench: Bench) -> None:
    """Allocate answers with a folder that the start fills: a start before that fails closed (law 9)."""
    answer = await bench.starts.deal(SEATS)
    assert isinstance(answer, ContainerEdits)
    expected = f"/run/railside/alloc/{allocation_key(POOL, SEATS)}/ib"
    assert [expected] == [one.host_path for one in answer.devices]
    assert (await asyncio.to_thread(bench.folder(*SEATS).is_dir), await bench.found(*SEATS)) == (True, [])


async def test_dealing_closes_what_seats_meant_before(bench: Bench) -> None:
    """No start finds what a seat meant before it was dealt again, and what was bound is not forgotten for that."""
    await bench.starts.start(SEATS)
    await bench.starts.deal(("n0-s0", "n0-s1"))
    assert (binding("p", n0_s0=1),) == bench.allocations.bindings.value
    assert await bench.found(*SEATS) == []


async def test_a_disk_that_refuses_fails_no_allocate(bench: Bench, written: LogLines) -> None:
    """An error at Allocate would fail the pod for good, so its start is left to wait instead."""
    await asyncio.to_thread((bench.root / "run").write_text, "in the way")
    answer = await bench.starts.deal(SEATS)
    assert isinstance(answer, ContainerEdits)
    assert written.events == ["the container's folder could not be made yet"]


@pytest.mark.parametrize("there", [True, False])
async def test_where_the_disk_refuses_the_last_look_tells_of_the_topology(bench: Bench, *, there: bool) -> None:
    """The answer to Allocate is kept for good, so what was last seen of virtualTopology.xml is in it."""
    await asyncio.to_thread((bench.root / "run").write_text, "in the way")
    bench.outlook.has_topology = there
    answer = await bench.starts.deal(SEATS)
    assert isinstance(answer, ContainerEdits)
    assert there == ("/var/run/nvidia-topologyd" in {one.container_path for one in answer.mounts})


@pytest.mark.parametrize("there", [True, False])
async def test_the_topology_is_mounted_where_the_host_has_it(bench: Bench, *, there: bool) -> None:
    """Whether virtualTopology.xml is there is looked up when the container is dealt, as the answer is kept."""
    file = bench.root / "var/run/nvidia-topologyd/virtualTopology.xml"
    if there:
        await asyncio.to_thread(file.parent.mkdir, parents=True)
        await asyncio.to_thread(file.write_text, "<system/>")
    answer = await bench.starts.deal(SEATS)
    assert isinstance(answer, ContainerEdits)
    assert there == ("/var/run/nvidia-topologyd" in {one.container_path for one in answer.mounts})


@pytest.mark.looptime
async def test_a_seat_that_is_dealt_again_is_in_flight_anew(bench: Bench) -> None:
    """The end of an earlier deal's time does not end that of a later deal of the same seat (law 5)."""
    loop = asyncio.get_running_loop()
    await bench.starts.deal((*SEATS, "n0-s1"))
    later = asyncio.Event()
    loop.call_later(IN_FLIGHT_SECONDS - 1, later.set)
    await later.wait()
    again = loop.time()
    await bench.starts.deal(SEATS)
    alone = await bench.in_flight.until(lambda seats: "n0-s1" not in seats)
    await bench.in_flight.until(lambda seats: not seats)
    assert set(SEATS) == set(alone)
    assert abs(loop.time() - again - IN_FLIGHT_SECONDS) < 0.1


# Starting


async def test_a_start_binds_and_lays_out(bench: Bench) -> None:
    """A container finds its HCA, everybody knows what it is bound to, and the decision is told."""
    outcome = await bench.starts.start(SEATS)
    assert isinstance(outcome, Bound)
    assert (binding("p", n0_s0=1),) == bench.allocations.bindings.value
    assert ([outcome], ["refresh", "decide"]) == ([one.outcome for one in bench.told], bench.outlook.asked)
    assert await bench.found(*SEATS) == ["uverbs1"]


async def test_a_main_container_takes_over_what_a_wider_init_container_had(bench: Bench) -> None:
    """What the init container had is not in use any more, and no start finds it."""
    both = (*SEATS, "n0-s1")
    bench.know(placed(1), placed(2), checkpoint=Checkpoint(entries=(entry("p", *both, container="init"),)))
    await bench.starts.start(both)
    entries = (entry("p", *both, container="init"), entry("p", *SEATS))
    bench.know(placed(1), placed(2), checkpoint=Checkpoint(entries=entries))
    await bench.starts.start(SEATS)
    assert (binding("p", n0_s0=1),) == bench.allocations.bindings.value
    assert (await bench.found(*both), await bench.found(*SEATS)) == ([], ["uverbs1"])


async def test_a_start_on_an_old_look_looks_again(bench: Bench) -> None:
    """Where the kernel calls the HCA otherwise by now, the machine is looked at and the start decided anew."""
    bench.outlook.present = lambda hcas: hcas == (_RENAMED,)
    bench.outlook.newer = msgspec.structs.replace(bench.outlook.now, machine=machine(_RENAMED))
    outcome = await bench.starts.start(SEATS)
    assert isinstance(outcome, Bound)
    assert await bench.found(*SEATS) == ["uverbs7"]
    assert bench.outlook.asked == ["refresh", "decide", "look", "decide"]


async def test_a_refusal_looks_again(bench: Bench) -> None:
    """An HCA that has come since the last look is found before a container is made to wait."""
    bench.know()
    bench.outlook.newer = msgspec.structs.replace(bench.outlook.now, machine=machine(placed(2)))
    outcome = await bench.starts.start(SEATS)
    assert isinstance(outcome, Bound)
    assert ([outcome], 1) == ([one.outcome for one in bench.told], bench.outlook.asked.count("look"))


async def test_a_refused_start_finds_nothing_of_before(bench: Bench) -> None:
    """A container whose HCA fell ill without another finds nothing, is bound to nothing, and says why (law 9)."""
    await bench.starts.start(SEATS)
    bench.know(_ILL)
    outcome = await bench.starts.start(SEATS)
    assert (_code(outcome), bench.allocations.bindings.value) == (Code.NO_FREE_HCA, ())
    assert await bench.found(*SEATS) == []


async def test_a_start_that_is_refused_forgets_nobody_elses_binding(bench: Bench) -> None:
    """The pod that runs on what the seat was bound to keeps it, though another was dealt the seat (law 7)."""
    await bench.starts.start(SEATS)
    others = (entry("q", *SEATS),)
    bench.know(placed(1), checkpoint=Checkpoint(entries=others), alive=frozenset({"p"}))
    outcomes = [await bench.starts.start(SEATS) for _ in range(2)]
    assert [_code(one) for one in outcomes] == [Code.DEALT_TWICE] * 2
    assert (binding("p", n0_s0=1),) == bench.allocations.bindings.value


async def test_a_seat_that_is_dealt_twice_stays_with_who_has_it(bench: Bench) -> None:
    """Where the kubelet deals a living pod's seat again, neither starts, and nobody gets its HCA (law 5)."""
    await bench.starts.start(SEATS)
    await bench.starts.deal(SEATS)
    twice = (entry("p", *SEATS), entry("q", *SEATS))
    bench.know(placed(1), placed(2), checkpoint=situation(entries=twice).checkpoint)
    assert _code(await bench.starts.start(SEATS)) is Code.DEALT_TWICE
    assert ((binding("p", n0_s0=1),), []) == (bench.allocations.bindings.value, await bench.found(*SEATS))
    entries = (*twice, entry("r", "n0-s1"))
    bench.know(placed(1), placed(2), checkpoint=situation(entries=entries).checkpoint)
    other = await bench.starts.start(("n0-s1",))
    assert isinstance(other, Bound)
    assert binding("r", n0_s1=2) == other.binding


async def test_a_start_in_doubt_keeps_what_the_seat_had(bench: Bench) -> None:
    """Beside a torn checkpoint a container has its own HCA again, and is locked to no pod until that is known."""
    bench.know(placed(1), placed(2), checkpoint=situation(entries=[entry("p", "n0-s0")]).checkpoint)
    await bench.starts.start(SEATS)
    bench.know(placed(1), placed(2), checkpoint=None)
    outcomes = [await bench.starts.start(seats) for seats in (SEATS, ("n0-s1",))]
    bound = [one.binding for one in outcomes if isinstance(one, Bound)]
    assert [binding(None, n0_s0=1), binding(None, n0_s1=2)] == bound


async def test_a_refusal_in_doubt_forgets_nothing(bench: Bench) -> None:
    """Who starts is not known in doubt, so what was bound stays bound, though the start finds nothing."""
    await bench.starts.start(SEATS)
    bench.know(_ILL, checkpoint=None)
    assert _code(await bench.starts.start(SEATS)) is Code.NO_FREE_HCA
    assert ((binding("p", n0_s0=1),), []) == (bench.allocations.bindings.value, await bench.found(*SEATS))


async def test_a_sidecar_keeps_its_lock(bench: Bench) -> None:
    """Where another container with the same seats may be running, a refusal does not free its HCA (law 8)."""
    await bench.starts.start(SEATS)
    entries = (entry("p", *SEATS), entry("p", *SEATS, container="sidecar"))
    bench.know(_ILL, checkpoint=situation(entries=entries).checkpoint)
    assert _code(await bench.starts.start(SEATS)) is Code.NO_FREE_HCA
    assert ((binding("p", n0_s0=1),), []) == (bench.allocations.bindings.value, await bench.found(*SEATS))


async def test_a_machine_that_changes_all_the_time(bench: Bench) -> None:
    """A start that finds another machine at each look waits, and finds nothing."""
    bench.outlook.present = lambda _: False
    outcome = await bench.starts.start(SEATS)
    assert isinstance(outcome, Refused)
    assert (outcome.reason.code, "it changes all the time" in outcome.reason.sentence) == (Code.LOOK_FAILED, True)
    assert await bench.found(*SEATS) == []


async def test_a_look_that_fails_is_told(bench: Bench) -> None:
    """A start that needs a look which fails waits with what is wrong, and what was bound is not forgotten."""
    await bench.starts.start(SEATS)
    bench.outlook.present = lambda _: False
    bench.outlook.look_problem = "sysfs did not answer within 10 s"
    outcome = await bench.starts.start(SEATS)
    assert isinstance(outcome, Refused)
    assert (
        outcome.reason.code,
        "sysfs did not answer within 10 s" in outcome.reason.sentence,
    ) == (Code.LOOK_FAILED, True)
    assert ((binding("p", n0_s0=1),), []) == (bench.allocations.bindings.value, await bench.found(*SEATS))


async def test_nodes_that_cannot_be_made_are_told(tmp_path: Path, written: LogLines) -> None:
    """A start whose nodes cannot be made waits with the disk's words, and finds nothing."""
    bench = Bench(tmp_path, written, nodes=FullDisk())
    outcome = await bench.starts.start(SEATS)
    assert isinstance(outcome, Refused)
    assert outcome.reason.code is Code.DEVICE_DIRECTORY_FAILED
    assert "No space left on device" in outcome.reason.sentence
    assert (bench.allocations.bindings.value, await bench.found(*SEATS)) == ((), [])


@pytest.mark.looptime
async def test_a_start_that_outlives_its_deadline_binds_nothing(bench: Bench) -> None:
    """A start that was refused because the disk hangs finds nothing, though its call returns later (law 9)."""
    bench.outlook.answers.clear()
    began = asyncio.get_running_loop().time()
    outcome = await bench.starts.start(SEATS)
    lasted = asyncio.get_running_loop().time() - began
    bench.outlook.answers.set()
    closed = [bench.directories.closed.acquire(timeout=LONGEST_BLOCK_SECONDS) for _ in range(2)]
    assert isinstance(outcome, Refused)
    assert (outcome.reason.code, closed) == (Code.DEVICE_DIRECTORY_FAILED, [True, True])
    assert "it took too long" in outcome.reason.sentence
    assert lasted < 60
    assert await bench.found(*SEATS) == []


@pytest.mark.looptime
async def test_a_start_is_answered_before_the_kubelet_gives_up(bench: Bench) -> None:
    """However many things hang one behind the other, the user gets a sentence within the kubelet's 30 s."""
    bench.outlook.hangs = True
    bench.know(_ILL)
    outcome = await bench.starts.start(SEATS)
    assert _code(outcome) is Code.LOOK_FAILED
    assert asyncio.get_running_loop().time() < 25


async def test_a_folder_that_cannot_be_closed_is_told(bench: Bench, written: LogLines) -> None:
    """Where nothing can be taken away after a failure, that is in the log."""
    bench.outlook.present = lambda _: False
    bench.directories.stuck = True
    outcome = await bench.starts.start(SEATS)
    assert (
        _code(outcome),
        written.events,
    ) == (Code.LOOK_FAILED, ["the container's folder could not be withdrawn"])


# Keeping true what is laid out


@pytest.mark.parametrize(
    ("now", "outdated", "found"),
    [
        pytest.param(machine(placed(1)), (), ["uverbs1"], id="as-it-was"),
        pytest.param(machine(_RENAMED), (binding("p", n0_s0=1),), ["uverbs7"], id="renumbered"),
        pytest.param(machine(placed(2)), (binding("p", n0_s0=1),), [], id="gone"),
    ],
)
async def test_what_is_no_longer_true_is_renewed(
    bench: Bench, now: Machine, outdated: tuple[Binding, ...], found: list[str]
) -> None:
    """What is laid out follows the machine, and who runs on what was before is told (law 9)."""
    await bench.starts.start(SEATS)
    assert (outdated, True) == await bench.allocations.renew(now)
    assert found == await bench.found(*SEATS)
    assert (binding("p", n0_s0=1),) == bench.allocations.bindings.value


async def test_one_folder_that_refuses_keeps_no_other(bench: Bench, written: LogLines) -> None:
    """Where one link cannot be taken away the others are laid out anew and told once, and it is tried again."""
    for seats in (SEATS, ("n0-s1",)):
        await bench.starts.start(seats)
    bench.directories.refusing = allocation_key(POOL, SEATS)
    moved = machine(_RENAMED, placed(2, name="mlx5_8", uverbs=hca(8).uverbs))
    first = await bench.allocations.renew(moved)
    found = await bench.found("n0-s1")
    bench.directories.refusing = None
    second = await bench.allocations.renew(moved)
    third = await bench.allocations.renew(moved)
    assert (
        [(len(outdated), done) for outdated, done in (first, second, third)],
        found,
    ) == ([(1, False), (1, True), (0, True)], ["uverbs8"])
    assert (first[0][0].seats, second[0][0].seats) == (("n0-s1",), SEATS)
    assert written.events == ["what is no longer true could not be withdrawn"]


async def test_what_cannot_be_renewed_is_told(bench: Bench, written: LogLines) -> None:
    """A disk that refuses is told, and the caller knows that it must try again."""
    await bench.starts.start(SEATS)
    bench.directories.stuck = True
    assert await bench.allocations.renew(machine()) == ((), False)
    assert written.events == ["what is no longer true could not be withdrawn"]


async def test_folders_of_ended_containers_go(bench: Bench) -> None:
    """Folders of seats that nobody holds are taken away, others stay."""
    for seats in (SEATS, ("n0-s1",)):
        await bench.starts.start(seats)
        await asyncio.to_thread(os.utime, bench.folder(*seats), (0, 0))
    await bench.allocations.collect(frozenset({SEATS}))
    there = [await asyncio.to_thread(bench.folder(*seats).exists) for seats in (SEATS, ("n0-s1",))]
    assert (there, [one.seats for one in bench.allocations.bindings.value]) == ([True, False], [SEATS])


async def test_bindings_of_an_earlier_run_are_recalled(bench: Bench, written: LogLines) -> None:
    """A new agent knows what the containers of the one before are bound to (law 6)."""
    await bench.starts.start(SEATS)
    later = Bench(bench.root, written)
    before = later.allocations.bindings.value
    await later.allocations.recall()
    assert ((), bench.allocations.bindings.value) == (before, later.allocations.bindings.value)
