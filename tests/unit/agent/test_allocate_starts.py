import asyncio
from pathlib import Path

import pytest
from tests.unit.agent.bench import SEATS, Bench, FullDisk
from tests.unit.agent.situations import binding, entry, placed, situation
from tests.unit.builders import LogLines, hca, machine, port

from railside_agent.binding import Bound, Refused
from railside_agent.container_edits import ContainerEdits
from railside_agent.holders import Checkpoint, Entry
from railside_proto.machine import PortState
from railside_proto.pool import Mode
from railside_proto.reasons import Code

_DOWN = (port(PortState.DOWN),)
_OTHER = ("n0-s1",)


@pytest.fixture
def bench(tmp_path: Path, written: LogLines) -> Bench:
    made = Bench(tmp_path, written, replayed=True)
    _dealt(made)
    return made


def _dealt(bench: Bench, *entries: Entry) -> None:
    """The kubelet's checkpoint has ``entries`` from now on."""
    hcas = bench.outlook.now.machine.hcas if bench.outlook.now.machine else ()
    bench.know(*hcas, checkpoint=Checkpoint(entries=entries))


def _nodes(answer: object) -> list[str]:
    assert isinstance(answer, ContainerEdits)
    return [one.container_path for one in answer.devices]


def _refusal(outcome: object) -> tuple[Code, str]:
    assert isinstance(outcome, Refused)
    return outcome.reason.code, outcome.reason.sentence


async def _deal_both(bench: Bench) -> None:
    """Two containers have both HCAs of the machine."""
    await bench.starts.deal(SEATS)
    _dealt(bench, entry("p", *SEATS))
    await bench.starts.deal(_OTHER)
    _dealt(bench, entry("p", *SEATS), entry("q", *_OTHER))


async def test_hcas_are_chosen_when_seats_are_dealt(bench: Bench) -> None:
    """The answer names the nodes of the HCAs, which are bound and in flight from then on."""
    answer = await bench.starts.deal(SEATS)
    assert _nodes(answer) == ["/dev/infiniband/uverbs1"]
    assert ((binding(None, n0_s0=1),), set(SEATS)) == (
        bench.allocations.bindings.value,
        set(bench.in_flight.value),
    )
    told = await asyncio.to_thread((bench.folder(*SEATS) / "info/hcas").read_text)
    assert told == "mlx5_1\n"


async def test_two_containers_never_get_one_hca(bench: Bench) -> None:
    """What was dealt a moment ago is in use before the kubelet's checkpoint shows it (law 7)."""
    answers = [await bench.starts.deal(seats) for seats in (SEATS, _OTHER)]
    assert [_nodes(answer) for answer in answers] == [["/dev/infiniband/uverbs1"], ["/dev/infiniband/uverbs2"]]


async def test_seats_that_nothing_is_left_for_are_refused(bench: Bench) -> None:
    """Without a free HCA the pod fails at once, as it could never start; nothing is bound."""
    await _deal_both(bench)
    code, _ = _refusal(await bench.starts.deal(("n0-s2",)))
    assert (code, len(bench.allocations.bindings.value)) == (Code.NO_FREE_HCA, 2)


async def test_nodes_that_cannot_be_made_refuse(tmp_path: Path, written: LogLines) -> None:
    """A disk that refuses at Allocate fails the pod with the disk's words."""
    bench = Bench(tmp_path, written, replayed=True, nodes=FullDisk())
    code, sentence = _refusal(await bench.starts.deal(SEATS))
    assert (code, "No space left on device" in sentence) == (Code.DEVICE_DIRECTORY_FAILED, True)


@pytest.mark.looptime
async def test_a_disk_that_hangs_refuses(bench: Bench) -> None:
    """Allocate holds up the whole node, so it waits a short while for a disk, and not for ever."""
    bench.outlook.answers.clear()
    code, sentence = _refusal(await bench.starts.deal(SEATS))
    bench.outlook.answers.set()
    assert (code, "it took too long" in sentence) == (Code.DEVICE_DIRECTORY_FAILED, True)
    assert asyncio.get_running_loop().time() < 5


async def test_a_container_starts_on_what_it_was_dealt(bench: Bench) -> None:
    """Also on a full node a start finds its own HCA, by then under its pod's name."""
    await _deal_both(bench)
    outcomes = [await bench.starts.start(seats) for seats in (SEATS, _OTHER)]
    bound = [one for one in outcomes if isinstance(one, Bound)]
    assert [binding("p", n0_s0=1), binding("q", n0_s1=2)] == [one.binding for one in bound]
    assert outcomes == [one.outcome for one in bench.told]


async def test_an_old_checkpoint_locks_nothing_to_a_pod_that_has_gone(bench: Bench) -> None:
    """The file that still names the seats' last holder says nothing of whom they are dealt to."""
    _dealt(bench, entry("old", *SEATS))
    await bench.starts.deal(SEATS)
    assert (binding(None, n0_s0=1),) == bench.allocations.bindings.value


async def test_seats_of_two_pods_that_have_gone_are_not_dealt_twice(bench: Bench) -> None:
    """A container may be dealt the seats of several ended pods that the checkpoint still names."""
    _dealt(bench, entry("one", *SEATS), entry("other", *_OTHER))
    assert _nodes(await bench.starts.deal((*SEATS, *_OTHER))) == [
        "/dev/infiniband/uverbs1",
        "/dev/infiniband/uverbs2",
    ]


async def test_dealing_takes_seats_from_who_had_them(bench: Bench) -> None:
    """A container that gets seats of an ended one gets what they meant, and the folder of that one goes later."""
    await bench.starts.deal((*SEATS, *_OTHER))
    _dealt(bench, entry("old", *SEATS, *_OTHER))
    assert _nodes(await bench.starts.deal(SEATS)) == ["/dev/infiniband/uverbs1"]
    assert (binding(None, n0_s0=1, n0_s1=2), binding(None, n0_s0=1)) == bench.allocations.bindings.value


async def test_init_and_main_containers_share_what_they_were_dealt(bench: Bench) -> None:
    """A main container that is dealt its init container's seat and another starts, and so does the init container.

    Each keeps its own folder, as the kubelet replays both, and the shared seat is one HCA.
    """
    both = (*SEATS, *_OTHER)
    answers = [_nodes(await bench.starts.deal(seats)) for seats in (SEATS, both)]
    _dealt(bench, entry("p", *SEATS, container="init"), entry("p", *both))
    outcomes = [await bench.starts.start(seats) for seats in (SEATS, both)]
    bound = [one.binding for one in outcomes if isinstance(one, Bound)]
    assert [binding("p", n0_s0=1), binding("p", n0_s0=1, n0_s1=2)] == bound
    assert answers == [["/dev/infiniband/uverbs1"], ["/dev/infiniband/uverbs1", "/dev/infiniband/uverbs2"]]


async def test_what_a_wider_init_container_was_dealt_is_handed_on(bench: Bench) -> None:
    """Main containers get what their init container's seats mean, and none of its HCAs is replaced by an idle one.

    By then the kubelet's checkpoint shows the deal before (law 7).
    """
    both = (*SEATS, *_OTHER)
    bench.know(placed(1), placed(2), placed(3))
    before = entry("p", *both, container="init")
    answers = [_nodes(await bench.starts.deal(both))]
    for seats in (_OTHER, SEATS):
        bench.in_flight.set({})
        _dealt(bench, before)
        answers.append(_nodes(await bench.starts.deal(seats)))
    first, second = "/dev/infiniband/uverbs1", "/dev/infiniband/uverbs2"
    assert answers == [[first, second], [second], [first]]


async def test_an_hca_given_away_since_is_not_dealt_again(bench: Bench) -> None:
    """A seat whose container has ended does not bring its HCA back from whom that was dealt to since (law 7)."""
    await _deal_both(bench)
    bench.in_flight.set({})
    bench.know(placed(1, ports=_DOWN), placed(2), checkpoint=Checkpoint())
    first = await bench.starts.deal(SEATS)
    code, _ = _refusal(await bench.starts.deal(_OTHER))
    assert (_nodes(first), code) == (["/dev/infiniband/uverbs2"], Code.NO_FREE_HCA)


async def test_seats_that_are_refused_are_not_in_flight(bench: Bench) -> None:
    """The pod fails and the kubelet has its seats again: they count as held by nobody."""
    await _deal_both(bench)
    await bench.starts.deal(("n0-s2",))
    assert {*SEATS, *_OTHER} == bench.in_flight.value.keys()


async def test_a_switch_to_fewer_shares_takes_no_container_its_hca(tmp_path: Path, written: LogLines) -> None:
    """What was dealt under ib-shared-multi starts again under ib-shared, however many share its HCA (law 7)."""
    bench = Bench(tmp_path, written, replayed=True)
    bench.know(placed(1), mode=Mode.IB_SHARED_MULTI)
    answers = [_nodes(await bench.starts.deal(seats)) for seats in (SEATS, _OTHER)]
    bench.know(placed(1), placed(2), mode=Mode.IB_SHARED)
    _dealt(bench, entry("p", *SEATS), entry("q", *_OTHER))
    again = [await bench.starts.start(seats) for seats in (SEATS, _OTHER)]
    assert answers == [["/dev/infiniband/uverbs1"]] * 2
    assert [one.hcas for one in again if isinstance(one, Bound)] == [(placed(1),)] * 2


async def test_nodes_that_are_replayed_are_never_laid_out_anew(bench: Bench) -> None:
    """After a renumbering what was dealt is told as outdated, once, and its start stays refused (law 9)."""
    await bench.starts.deal(SEATS)
    before = await bench.found(*SEATS)
    renumbered = placed(1, uverbs=hca(2).uverbs)
    told = [await bench.allocations.renew(machine(renumbered)) for _ in range(2)]
    bench.know(renumbered, checkpoint=situation(entries=[entry("p", *SEATS)]).checkpoint)
    assert [((binding(None, n0_s0=1),), True), ((), True)] == told
    assert before == await bench.found(*SEATS)
    assert _refusal(await bench.starts.start(SEATS))[0] is Code.NODES_CHANGED


async def test_an_hca_that_is_back_as_it_was_starts_again(bench: Bench) -> None:
    """A look in the middle of a driver's reload costs no container its later starts."""
    await bench.starts.deal(SEATS)
    _dealt(bench, entry("p", *SEATS))
    for seen in (machine(), machine(placed(1), placed(2))):
        await bench.allocations.renew(seen)
    outcome = await bench.starts.start(SEATS)
    assert isinstance(outcome, Bound)
    assert outcome.hcas == (placed(1),)


async def test_whose_the_hcas_are_is_known_from_the_first_start_on(bench: Bench) -> None:
    """What was dealt to nobody knows whom is locked to the pod that the checkpoint names at its start."""
    await bench.starts.deal(SEATS)
    _dealt(bench, entry("p", *SEATS))
    await bench.starts.start(SEATS)
    assert (binding("p", n0_s0=1),) == bench.allocations.bindings.value


async def test_a_deal_reads_what_the_kubelet_wrote_last(bench: Bench) -> None:
    """What is decided for good is not decided on the file of before."""
    await bench.starts.deal(SEATS)
    assert bench.outlook.asked == ["refresh", "decide"]


@pytest.mark.parametrize("free", [True, False])
async def test_an_hca_that_fell_ill_is_not_exchanged(bench: Bench, *, free: bool) -> None:
    """A container whose nodes are fixed waits for its own HCA, and is not told that it has another (law 8)."""
    await bench.starts.deal(SEATS)
    ill = placed(1, ports=_DOWN)
    hcas = (ill, placed(2)) if free else (ill,)
    bench.know(*hcas, checkpoint=situation(entries=[entry("p", *SEATS)]).checkpoint)
    code, sentence = _refusal(await bench.starts.start(SEATS))
    assert (code, "(port 1 is DOWN)" in sentence) == (Code.HCA_NOT_SOUND, True)
    assert (binding(None, n0_s0=1),) == bench.allocations.bindings.value


async def test_nodes_that_have_changed_refuse(bench: Bench) -> None:
    """A container whose nodes would be another HCA by now never starts on them (law 9)."""
    await bench.starts.deal(SEATS)
    renumbered = placed(1, uverbs=hca(2).uverbs)
    bench.know(renumbered, checkpoint=situation(entries=[entry("p", *SEATS)]).checkpoint)
    code, sentence = _refusal(await bench.starts.start(SEATS))
    assert (code, "its nodes are not those it was given" in sentence) == (Code.NODES_CHANGED, True)


async def test_nodes_that_have_changed_since_the_last_look_refuse(bench: Bench) -> None:
    """What the kernel says at this moment counts, and not the last look alone (law 9)."""
    await bench.starts.deal(SEATS)
    bench.outlook.present = lambda _: False
    assert _refusal(await bench.starts.start(SEATS))[0] is Code.NODES_CHANGED


async def test_what_was_never_dealt_does_not_start(bench: Bench) -> None:
    """A start of seats that nothing was laid out for, as after a reboot, is refused."""
    assert _refusal(await bench.starts.start(SEATS))[0] is Code.NODES_CHANGED


async def test_a_seat_that_was_dealt_twice_does_not_start(bench: Bench) -> None:
    """Where two pods have a seat, neither starts on its HCA."""
    await bench.starts.deal(SEATS)
    _dealt(bench, entry("p", *SEATS), entry("q", *SEATS))
    assert _refusal(await bench.starts.start(SEATS))[0] is Code.DEALT_TWICE


@pytest.mark.looptime
async def test_a_start_behind_a_disk_that_hangs_waits(bench: Bench) -> None:
    """A check that takes too long refuses the start with that reason, and is no bug."""
    bench.outlook.answers.clear()
    code, _ = _refusal(await bench.starts.start(SEATS))
    bench.outlook.answers.set()
    assert code is Code.DEVICE_DIRECTORY_FAILED
