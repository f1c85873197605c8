import itertools
import sys
from typing import Any

import msgspec
import pytest
from tests.unit.agent.situations import (
    POOL,
    RULES,
    acknowledging,
    address,
    answer,
    binding,
    entry,
    free,
    held,
    ids,
    listed,
    rules,
    situation,
)
from tests.unit.builders import hca, port

from railside_agent.holders import Checkpoint, Entry
from railside_agent.seats import HELD_HEALTHY_SECONDS, Books, Offer, OfferedSeat, offer, wants_registration
from railside_agent.situation import Listed, Situation
from railside_agent.soundness import Course
from railside_proto.machine import Hca, PortState
from railside_proto.pool import Mode, Pool, Seat
from railside_proto.reasons import Code

_HCAS = (hca(1), hca(2), hca(3, 1))
_DOWN = (port(PortState.DOWN),)
_THREE = Pool(shares_per_hca=3)
_MULTI = Mode.IB_SHARED_MULTI


def _seat(one: Offer, name: str) -> OfferedSeat:
    return next(seat for seat in one.seats if seat.seat.id == name)


def _code(one: OfferedSeat) -> Code | None:
    return one.reason.code if one.reason else None


def _hints(one: Offer) -> dict[str, tuple[int, ...]]:
    return {seat.seat.id: seat.seat.numa_nodes for seat in one.seats}


def _after(*situations: Situation, pool: Pool = POOL) -> tuple[Books, Offer]:
    """The books and the list after one situation after the other."""
    books, made = Books(), Offer()
    for now in situations:
        books, made = offer(now, books, pool, RULES)
    return books, made


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param(Mode.IB_SHARED, ["n0-s0", "n0-s1", "n1-s0"], id="one-an-hca"),
        pytest.param(
            _MULTI, [*(f"n0-s{n}" for n in range(6)), *(f"n1-s{n}" for n in range(3))], id="three-an-hca"
        ),
        pytest.param(None, [], id="no-mode"),
    ],
)
def test_a_seat_for_each_free_share(mode: Mode | None, expected: list[str]) -> None:
    """A fresh list has one healthy seat for each share of the mode, named by zone (law 7, B-DP-4)."""
    assert expected == free(listed(situation(*_HCAS, mode=mode), pool=_THREE))


def test_a_free_seat_stands_for_no_hca() -> None:
    """A free seat is at its zone's node, healthy, and means no HCA yet."""
    made = listed(situation(*_HCAS))
    assert OfferedSeat(seat=Seat(id="n1-s0", numa_nodes=(1,)), healthy=True) == _seat(made, "n1-s0")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param({}, ["n0-s1", "n1-s0"], id="dealt-and-not-started"),
        pytest.param({"bindings": (binding("p", n0_s0=2),)}, ["n0-s1", "n1-s0"], id="started"),
        pytest.param({"mode": None, "bindings": (binding("p", n0_s0=2),)}, [], id="no-mode"),
        pytest.param({"ended": frozenset({"p"})}, ["n0-s0", "n0-s1", "n1-s0"], id="pod-over"),
    ],
)
def test_a_held_seat_stays_listed(facts: dict[str, Any], expected: list[str]) -> None:
    """A seat in hands is listed and counted in every mode, beside the free shares that are left (law 1, law 7)."""
    made = listed(situation(*_HCAS, entries=[entry("p", "n0-s0")], **facts))
    assert (expected, True) == (free(made), "n0-s0" in ids(made))


def test_a_held_seat_tells_the_hca_that_it_means() -> None:
    """Once its container has started, a seat is shown with its HCA; before, with none."""
    entries = [entry("p", "n0-s0"), entry("q", "n0-s1")]
    made = listed(situation(*_HCAS, entries=entries, bindings=(binding("p", n0_s0=2),)))
    told = [(_seat(made, name).hca, _seat(made, name).held) for name in ("n0-s0", "n0-s1")]
    assert [(address(2), True), (None, True)] == told


# Tombstones

_STONE = "n0-s9"
_OLD = Listed(id=_STONE, numa_nodes=(0,), unhealthy_since=0.0)


def _stays(now: Situation, *, before: Listed = _OLD, good: Checkpoint | None = None) -> bool:
    books = Books(hinted=True, listed=(before,), checkpoint=good)
    return _STONE in ids(listed(now, books=books))


_LATE = situation(hca(3, 1), now=60.0)


@pytest.mark.parametrize(
    ("now", "before", "stays"),
    [
        pytest.param(_LATE, _OLD, False, id="old-and-let-go"),
        pytest.param(msgspec.structs.replace(_LATE, now=59.9), _OLD, True, id="too-young"),
        pytest.param(
            _LATE, msgspec.structs.replace(_OLD, unhealthy_since=None), True, id="listed-as-healthy-until-now"
        ),
        pytest.param(acknowledging(_LATE, [_STONE]), _OLD, True, id="the-kubelet-counts-it-as-healthy"),
        pytest.param(acknowledging(_LATE, ["n0-s0"]), _OLD, False, id="the-kubelet-has-let-go"),
        pytest.param(
            situation(hca(3, 1), entries=[entry("p", _STONE)], ended=frozenset({"p"}), now=60.0),
            _OLD,
            True,
            id="the-checkpoint-names-it-for-a-pod-that-is-over",
        ),
        pytest.param(msgspec.structs.replace(_LATE, checkpoint=None), _OLD, True, id="the-checkpoint-is-torn"),
        pytest.param(
            msgspec.structs.replace(_LATE, in_flight=frozenset({"n0-s0"})), _OLD, True, id="a-call-is-under-way"
        ),
    ],
)
def test_when_an_id_may_leave_the_list(now: Situation, before: Listed, *, stays: bool) -> None:
    """An id leaves when the kubelet cannot have it in mind in any way: one that is missing crashes it (law 1)."""
    assert stays == _stays(now, before=before)


def test_a_torn_checkpoint_lets_nothing_go_though_the_last_good_one_would() -> None:
    """What the last good checkpoint said is not enough to drop an id."""
    assert _stays(msgspec.structs.replace(_LATE, checkpoint=None), good=Checkpoint())


def test_what_is_no_longer_offered_says_so() -> None:
    """A seat whose HCA fell ill is told as unhealthy with the reason, and nobody is dealt it (B-DP-37)."""
    _, made = _after(situation(*_HCAS), situation(hca(1), hca(2, ports=_DOWN), hca(3, 1)))
    gone = _seat(made, "n0-s1")
    assert (gone.healthy, gone.held, _code(gone)) == (False, False, Code.SEAT_WITHDRAWN)


def test_a_tombstone_keeps_its_clock() -> None:
    """The time of an id that is not offered runs from when it was first told so."""
    ill = situation(hca(1, ports=_DOWN), now=10.0)
    books, _ = _after(situation(hca(1)), ill, msgspec.structs.replace(ill, now=20.0))
    assert (Listed(id="n0-s0", numa_nodes=(0,), unhealthy_since=10.0),) == books.listed


def test_an_id_that_is_healthy_again_has_no_clock() -> None:
    """A seat that is offered anew would stay its full time again."""
    books, _ = _after(situation(hca(1)), situation(hca(1, ports=_DOWN), now=10.0), situation(hca(1), now=99.0))
    books, _ = offer(situation(hca(1), now=109.0), books, POOL, RULES)
    assert (Listed(id="n0-s0", numa_nodes=(0,)),) == books.listed


def test_ids_come_back_before_new_ones_are_made() -> None:
    """A share that is free again is offered under the id that stands there already."""
    two_dealt = situation(*_HCAS, entries=[entry("p", "n0-s1")])
    books = Books(hinted=True, listed=(Listed(id="n0-s7", numa_nodes=(0,), unhealthy_since=0.0),))
    assert free(listed(two_dealt, books=books)) == ["n0-s7", "n1-s0"]


def test_healthy_ids_stay_rather_than_unhealthy_ones_come_back() -> None:
    """The kubelet is told as little news as can be: what is offered stays offered."""
    books = Books(
        hinted=True,
        listed=(
            Listed(id="n0-s0", numa_nodes=(0,), unhealthy_since=1.0),
            Listed(id="n0-s1", numa_nodes=(0,)),
        ),
    )
    assert free(listed(situation(hca(1), now=2.0), books=books)) == ["n0-s1"]


def test_a_mode_switch_offers_what_is_free_and_no_more() -> None:
    """From several to one an HCA: held seats stay, used HCAs are full, and an idle one is not hidden (law 7)."""
    entries = [entry("p", "n0-s0"), entry("q", "n0-s4")]
    bindings = (binding("p", n0_s0=1), binding("q", n0_s4=1))
    now = situation(hca(1), hca(2), entries=entries, bindings=bindings, mode=_MULTI)
    books, before = offer(now, Books(), _THREE, RULES)
    _, after = offer(msgspec.structs.replace(now, mode=Mode.IB_SHARED), books, _THREE, RULES)
    assert (len(free(before)), len(free(after))) == (4, 1)
    assert set(ids(before)) == set(ids(after))


# Law 8


@pytest.mark.parametrize(
    ("now", "code"),
    [
        pytest.param(situation(hca(1, ports=_DOWN), hca(2)), Code.NO_ACTIVE_PORT, id="B-DP-37-port-down"),
        pytest.param(situation(hca(2)), Code.HCA_GONE, id="B-DP-41-gone"),
        pytest.param(situation(hca(1), hca(2)), None, id="sound"),
        pytest.param(msgspec.structs.replace(situation(), machine=None), None, id="not-looked-yet"),
    ],
)
def test_a_held_seat_is_counted_whatever_its_hca_does(now: Situation, code: Code | None) -> None:
    """A held seat stays healthy for the kubelet, so that no idle HCA is hidden, and its reason is told (law 8)."""
    checkpoint = Checkpoint(entries=(entry("p", "n0-s0"),))
    now = msgspec.structs.replace(now, checkpoint=checkpoint, bindings=(binding("p", n0_s0=1),))
    seat = _seat(listed(now), "n0-s0")
    assert (True, True, code) == (seat.held, seat.healthy, _code(seat))


@pytest.mark.parametrize(
    ("heard_since", "told", "healthy"),
    [
        pytest.param(None, True, True, id="nobody-listens-yet"),
        pytest.param(100.0 - HELD_HEALTHY_SECONDS + 0.1, True, True, id="just-registered"),
        pytest.param(100.0 - HELD_HEALTHY_SECONDS, True, False, id="registered-for-a-while"),
        pytest.param(0.0, False, True, id="not-asked-for"),
    ],
)
def test_held_seats_told_unhealthy_by_setting(heard_since: float | None, *, told: bool, healthy: bool) -> None:
    """By setting the kubelet learns of an ill HCA in hands, but not while it admits its pods anew (law 8)."""
    now = situation(
        hca(1, ports=_DOWN),
        entries=[entry("p", "n0-s0")],
        bindings=(binding("p", n0_s0=1),),
        heard_since=heard_since,
        now=100.0,
    )
    made = listed(now, by=rules(report_held_unhealthy=told))
    assert healthy == _seat(made, "n0-s0").healthy


def test_held_seats_of_sound_hcas_are_healthy_under_that_setting() -> None:
    """The setting changes nothing for a seat whose HCA is sound, or that has not started."""
    entries = [entry("p", "n0-s0"), entry("q", "n0-s1")]
    now = situation(hca(1), hca(2), entries=entries, bindings=(binding("p", n0_s0=1),), heard_since=0.0, now=99.0)
    made = listed(now, by=rules(report_held_unhealthy=True))
    assert {one.seat.id: one.healthy for one in made.seats} == {"n0-s0": True, "n0-s1": True}


# Hints


@pytest.mark.parametrize(
    ("hcas", "entries", "advertise", "expected"),
    [
        pytest.param((hca(1), hca(3, 1)), [], "auto", {"n0-s0": (0,), "n1-s0": (1,)}, id="hinted"),
        pytest.param((hca(1), hca(3, 1)), [], "never", {"any-s0": (), "any-s1": ()}, id="bare-by-setting"),
        pytest.param((hca(1, None),), [], "auto", {"any-s0": ()}, id="B-DP-18-no-node"),
        pytest.param((hca(1), hca(2, None)), [], "auto", {"any-s0": (0, 1), "n0-s0": (0,)}, id="one-anywhere"),
        pytest.param(
            (hca(1), hca(3, 1)),
            [entry("p", ids=(held("n0-s0"),))],
            "auto",
            {"any-s0": (), "n0-s0": ()},
            id="held-bare",
        ),
        pytest.param(
            (hca(1), hca(3, 1)),
            [entry("p", ids=(held("n0-s0", 1),))],
            "never",
            {"n0-s0": (1,), "n1-s0": (1,)},
            id="held-elsewhere-than-named",
        ),
    ],
)
def test_all_seats_have_hints_or_none(
    hcas: tuple[Hca, ...], entries: list[Entry], advertise: str, expected: dict[str, tuple[int, ...]]
) -> None:
    """The list is hinted or bare as a whole, and a held id keeps what the kubelet recorded (law 4)."""
    made = listed(situation(*hcas, entries=entries), by=rules(advertise_topology=advertise))
    hints = _hints(made)
    assert expected == {name: hints.get(name) for name in expected}
    assert len({bool(nodes) for nodes in hints.values()}) == 1


def test_hints_stay_while_the_checkpoint_is_torn() -> None:
    """What an old checkpoint does not name may be held by now, and must not lose its hint (law 4)."""
    books = Books(hinted=True, checkpoint=Checkpoint())
    made = listed(situation(hca(1), checkpoint=None), books=books, by=rules(advertise_topology="never"))
    assert _hints(made) == {"n0-s0": (0,)}


def test_before_the_first_look_seats_anywhere_fit_the_nodes_that_are_known() -> None:
    """A remembered seat that fits everywhere is never bare in a list with hints."""
    now = msgspec.structs.replace(situation(entries=[entry("p", "n0-s0")]), machine=None)
    books = Books(
        hinted=True, listed=(Listed(id="any-s0", numa_nodes=(0, 1)), Listed(id="n1-s0", numa_nodes=(1,)))
    )
    assert _hints(listed(now, books=books)) == {"any-s0": (0, 1), "n0-s0": (0,), "n1-s0": (1,)}


def test_what_was_remembered_is_listed_before_the_first_look() -> None:
    """Ids of an earlier run are in the first list: held ones healthy, others not to be had yet (law 1, law 3)."""
    now = msgspec.structs.replace(situation(entries=[entry("p", "n0-s0")]), machine=None)
    books = Books(hinted=True, listed=(Listed(id="n0-s0", numa_nodes=(0,)), Listed(id="n0-s1", numa_nodes=(0,))))
    made = listed(now, books=books)
    assert {one.seat.id: one.healthy for one in made.seats} == {"n0-s0": True, "n0-s1": False}


# Foreign ids


def test_another_plugins_id_is_listed_as_it_was_recorded() -> None:
    """An id that another plugin dealt is listed healthy and held, where the kubelet believes it (law 2)."""
    made = listed(situation(*_HCAS, entries=[entry("p", ids=(held("mlx5_2", 1),))]))
    theirs = _seat(made, "mlx5_2")
    assert (Seat(id="mlx5_2", numa_nodes=(1,)), True, True, True) == (
        theirs.seat,
        theirs.healthy,
        theirs.held,
        theirs.foreign,
    )
    assert _code(theirs) is Code.SEAT_FOREIGN
    assert free(made) == ["n0-s0", "n0-s1"]


def test_another_plugins_id_leaves_when_its_pod_is_gone() -> None:
    """An id of theirs that the kubelet has forgotten becomes a tombstone and goes; its HCA is free again."""
    theirs = situation(hca(1), entries=[entry("p", ids=(held("mlx5_1", 0),))])
    books, _ = _after(theirs)
    books, soon = offer(situation(hca(1), now=1.0), books, POOL, RULES)
    _, late = offer(situation(hca(1), now=61.0), books, POOL, RULES)
    assert (free(soon), ids(soon), ids(late)) == (["n0-s0"], ["n0-s0", "mlx5_1"], ["n0-s0"])


def test_another_plugins_id_keeps_its_node_until_it_leaves() -> None:
    """While the kubelet may have an id of theirs in mind, it stands where the kubelet has recorded it (law 4)."""
    books, before = _after(situation(hca(1, 1), entries=[entry("p", ids=(held("mlx5_1", 1),))]))
    _, after = offer(situation(hca(1, 1), now=1.0), books, POOL, RULES)
    assert (_hints(before)["mlx5_1"], _hints(after)["mlx5_1"]) == ((1,), (1,))


def test_their_id_dealt_again_by_us_is_a_seat() -> None:
    """Once the kubelet deals an id of theirs that we list, it is held like any other."""
    ours = entry("p", ids=(held("mlx5_1", 0),), answer=answer("/run/railside/alloc/x/ib"))
    made = listed(situation(hca(1), hca(2), entries=[ours], bindings=(binding("p", mlx5_1=2),)))
    seat = _seat(made, "mlx5_1") if "mlx5_1" in ids(made) else None
    assert seat is not None
    assert (seat.held, seat.foreign) == (True, False)


# When the list changes by itself


@pytest.mark.parametrize(
    ("now", "books", "told", "expected"),
    [
        pytest.param(situation(hca(1)), Books(), False, None, id="nothing-to-come"),
        pytest.param(
            situation(hca(1), now=5.0),
            Books(courses={address(1): Course(well_since=1.0, flaps=1)}),
            False,
            11.0,
            id="an-hca-recovers",
        ),
        pytest.param(
            situation(now=5.0),
            Books(hinted=False, listed=(Listed(id="any-s0", unhealthy_since=2.0),)),
            False,
            62.0,
            id="an-id-may-leave",
        ),
        pytest.param(
            situation(hca(1), now=5.0),
            Books(
                courses={address(1): Course(well_since=1.0, flaps=1)},
                hinted=False,
                listed=(Listed(id="any-s0", unhealthy_since=-52.0),),
            ),
            False,
            8.0,
            id="the-first-of-two",
        ),
        pytest.param(situation(hca(1), now=5.0, heard_since=1.0), Books(), True, 11.0, id="just-registered"),
        pytest.param(situation(hca(1), now=5.0, heard_since=1.0), Books(), False, None, id="setting-off"),
        pytest.param(situation(hca(1), now=5.0), Books(), True, None, id="nobody-listens"),
        pytest.param(situation(hca(1), now=11.0, heard_since=1.0), Books(), True, None, id="heard-for-long"),
    ],
)
def test_when_the_list_changes_by_itself(
    now: Situation, books: Books, *, told: bool, expected: float | None
) -> None:
    """Whoever keeps the list is told the first moment at which time alone changes it."""
    assert expected == listed(now, books=books, by=rules(report_held_unhealthy=told)).changes_at


# Books


def test_the_books_keep_what_the_next_list_needs() -> None:
    """Hints, held ids and the last good checkpoint are in the books, and a torn one replaces nothing."""
    now = situation(hca(1), hca(2), entries=[entry("p", "n0-s0")])
    books, _ = _after(now, msgspec.structs.replace(now, checkpoint=None))
    listed_now = (Listed(id="n0-s0", numa_nodes=(0,), held=True), Listed(id="n0-s1", numa_nodes=(0,)))
    assert (True, now.checkpoint, listed_now) == (books.hinted, books.checkpoint, books.listed)


def test_courses_stay_while_the_machine_is_not_seen() -> None:
    """An ill HCA is not forgotten by a list that is made before the first look."""
    ill = situation(hca(1, ports=_DOWN))
    books, _ = _after(ill, msgspec.structs.replace(ill, machine=None))
    assert books.courses.keys() == {address(1)}


# Registration

_OURS = OfferedSeat(seat=Seat(id="n0-s0"), healthy=True)
_THEIRS = OfferedSeat(seat=Seat(id="mlx5_0"), healthy=True, held=True, foreign=True)


@pytest.mark.parametrize(
    ("now", "mode", "expected"),
    [
        pytest.param(Offer(), Mode.IB_SHARED, False, id="nothing"),
        pytest.param(Offer(seats=(_THEIRS,)), Mode.IB_SHARED, False, id="theirs-alone"),
        pytest.param(Offer(seats=(_OURS,)), Mode.IB_SHARED, True, id="free-seats"),
        pytest.param(Offer(seats=(_OURS,)), None, False, id="free-seats-and-no-mode"),
        pytest.param(Offer(seats=(msgspec.structs.replace(_OURS, held=True),)), None, True, id="held-and-no-mode"),
        pytest.param(listed(situation(hca(1, ports=_DOWN))), Mode.IB_SHARED, True, id="a-sick-hca"),
        pytest.param(listed(situation(hca(1)), pool=POOL), None, False, id="hcas-and-no-mode"),
    ],
)
def test_when_the_kubelet_should_know_us(now: Offer, mode: Mode | None, *, expected: bool) -> None:
    """Registered while something is ours and a mode is chosen, or held; never to push another plugin aside."""
    assert expected == wants_registration(now, mode)


def test_looking_again_changes_nothing() -> None:
    """The list of unchanged facts is the same list."""
    now = situation(*_HCAS, entries=[entry("p", "n0-s0"), entry("q", ids=(held("x", 0),))])
    books, made = _after(now)
    assert made == offer(now, books, POOL, RULES)[1]


def _calls_to_list(share: int) -> int:
    """How many functions are called to list anew sixteen HCAs with ``share`` seats each."""
    pool = Pool(shares_per_hca=share)
    now = situation(*(hca(number, number % 2) for number in range(16)), mode=Mode.IB_SHARED_MULTI)
    books, made = offer(now, Books(), pool, RULES)
    assert len(free(made)) == 16 * share
    calls = itertools.count()
    sys.setprofile(lambda *_: next(calls))
    try:
        offer(now, books, pool, RULES)
    finally:
        sys.setprofile(None)
    return next(calls)


def test_a_list_of_many_seats_costs_so_much_for_each() -> None:
    """Four times the seats are four times the work: 16 HCAs of 1024 seats do not hold up the kubelet."""
    assert _calls_to_list(1024) < 4.2 * _calls_to_list(256)
