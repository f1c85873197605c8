import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.builders import hca, machine, port

from railside_agent.holders import HeldId
from railside_agent.seats import Offer, offer, recalled
from railside_proto.machine import Hca, Machine, PortState
from railside_proto.pool import Container, Pool, Seat
from railside_proto.reasons import Code

_POOL = Pool()


def _ids(seats: Offer) -> list[str]:
    return [one.seat.id for one in seats]


def _hints(seats: Offer) -> list[tuple[int, ...]]:
    return [one.seat.numa_nodes for one in seats]


def _codes(seats: Offer) -> list[Code | None]:
    return [one.illness.code if one.illness else None for one in seats]


def test_a_seat_for_each_hca_with_its_numa_node() -> None:
    """Seats are named after their NUMA node and not after their HCA."""
    seats = offer(machine(hca(1), hca(2), hca(3, 1)), _POOL)
    expected = [
        Seat(id="n0-s0", numa_nodes=(0,)),
        Seat(id="n0-s1", numa_nodes=(0,)),
        Seat(id="n1-s0", numa_nodes=(1,)),
    ]
    assert expected == [one.seat for one in seats]


def test_a_share_of_seats_for_each_hca() -> None:
    """An HCA that serves several containers has as many seats (B-DP-4)."""
    seats = offer(machine(hca(1), hca(2, 1)), Pool(share=2))
    assert _ids(seats) == ["n0-s0", "n0-s1", "n1-s0", "n1-s1"]
    assert [hca(1).address] * 2 + [hca(2).address] * 2 == [one.hca for one in seats]


def test_all_seats_have_hints_where_one_hca_has_a_numa_node() -> None:
    """An HCA that no node claims fits every node, as a bare seat among hinted ones is never dealt (B-DP-18)."""
    seats = offer(machine(hca(1), hca(2, None)), _POOL)
    assert (_ids(seats), _hints(seats)) == (["n0-s0", "any-s0"], [(0,), (0, 1)])


def test_no_seat_has_a_hint_where_no_hca_has_a_numa_node() -> None:
    """Where nothing is known of NUMA nodes, all seats are bare (B-DP-18)."""
    assert _hints(offer(machine(hca(1, None), hca(2, None)), _POOL)) == [(), ()]


def test_a_list_that_is_bare_stays_bare() -> None:
    """A bare list gets no hints when an HCA with a NUMA node appears."""
    before = offer(machine(hca(1, None)), _POOL)
    assert _hints(offer(machine(hca(1, None), hca(2)), _POOL, before)) == [(), ()]


def test_a_list_that_is_hinted_stays_hinted() -> None:
    """A hinted list gets no bare seat when an HCA without a NUMA node comes alone."""
    before = offer(machine(hca(1)), _POOL)
    assert _hints(offer(machine(hca(2, None)), _POOL, before)) == [(0,), (0, 1)]


def test_an_hca_that_has_gone_keeps_its_seat() -> None:
    """A removed HCA's seat stays listed, ill, as a pod may hold it (B-DP-41)."""
    before = offer(machine(hca(1), hca(2)), _POOL)
    after = offer(machine(hca(2)), _POOL, before)
    assert (_ids(before), [Code.HCA_GONE, None]) == (_ids(after), _codes(after))


def test_an_hca_that_comes_back_has_its_seat_again() -> None:
    """An HCA that returns recovers under the same id, whatever its names and numbers are now (B-DP-38)."""
    before = offer(machine(hca(1), hca(2)), _POOL)
    gone = offer(machine(hca(2)), _POOL, before)
    assert before == offer(machine(hca(1, name="mlx5_7"), hca(2)), _POOL, gone)


def test_a_new_hca_gets_a_new_id() -> None:
    """Hot-added HCAs come last, under ids that no other HCA has had (B-DP-15)."""
    before = offer(machine(hca(2)), _POOL)
    assert _ids(offer(machine(hca(1)), _POOL, before)) == ["n0-s0", "n0-s1"]


def test_a_port_that_is_down_makes_the_seat_ill() -> None:
    """A seat is ill while its HCA is, with the HCA's reason (B-DP-37)."""
    seats = offer(machine(hca(1, ports=(port(PortState.DOWN),)), hca(2)), _POOL)
    assert _codes(seats) == [Code.NO_ACTIVE_PORT, None]


def test_a_hint_never_changes() -> None:
    """A seat keeps the hint it was listed with, even if the firmware says another node later."""
    before = offer(machine(hca(1, 0)), _POOL)
    assert _hints(offer(machine(hca(1, 1)), _POOL, before)) == [(0,)]


def test_a_held_seat_is_counted_though_its_hca_is_ill() -> None:
    """The kubelet is told that a held seat is healthy, and that a free one is not (law 8)."""
    down = (port(PortState.DOWN),)
    before = offer(machine(hca(1), hca(2)), _POOL)
    seats = offer(machine(hca(1, ports=down), hca(2, ports=down)), _POOL, before, (HeldId(id="n0-s0"),))
    assert [one.counted for one in seats] == [True, False]
    assert _codes(seats) == [Code.NO_ACTIVE_PORT] * 2


@pytest.mark.parametrize(
    ("now", "held", "hint"),
    [
        pytest.param(machine(hca(1)), HeldId(id="theirs", numa_nodes=(1,)), (1,), id="as-recorded"),
        pytest.param(machine(hca(1), hca(2, 1)), HeldId(id="theirs"), (0, 1), id="bare-among-hinted"),
        pytest.param(machine(), HeldId(id="theirs", numa_nodes=(1,)), (1,), id="alone"),
        pytest.param(machine(hca(1, None)), HeldId(id="theirs"), (), id="bare-among-bare"),
    ],
)
def test_an_id_of_another_plugin_is_listed_while_held(now: Machine, held: HeldId, hint: tuple[int, ...]) -> None:
    """A held id that is none of ours stands for no HCA, but is listed and counted where it was (law 2, law 4)."""
    theirs = offer(now, _POOL, held=(held,))[-1]
    assert ("theirs", hint, None, True) == (theirs.seat.id, theirs.seat.numa_nodes, theirs.hca, theirs.counted)


def test_an_id_of_another_plugin_is_never_healthy_again() -> None:
    """When its pod is gone nobody else gets it."""
    before = offer(machine(hca(1)), _POOL, held=(HeldId(id="theirs", numa_nodes=(0,)),))
    after = offer(machine(hca(1)), _POOL, before)
    assert [one.counted for one in after] == [True, False]


def test_new_seats_avoid_the_names_that_are_held() -> None:
    """A seat never gets a name that a pod holds from before."""
    assert _ids(offer(machine(hca(1)), _POOL, held=(HeldId(id="n0-s0", numa_nodes=(0,)),))) == ["n0-s1", "n0-s0"]


def test_before_the_first_look_what_was_remembered_is_offered() -> None:
    """The kubelet gives a list 1.2 s from its start, which no card that hangs may cost (law 3)."""
    before = offer(machine(hca(1), hca(2)), _POOL)
    assert before == offer(None, _POOL, before)


def test_bound_containers_tell_which_hca_a_seat_meant() -> None:
    """Seats are recovered with their HCAs, and with the node that the kubelet or their name tells (law 6)."""
    containers = [
        Container(seats=("n0-s1", "n1-s0"), hcas=("0000:02:00.0", "0000:09:00.0")),
        Container(seats=("any-s0",), hcas=("0000:05:00.0",)),
    ]
    seats = recalled((), containers, (HeldId(id="any-s0", numa_nodes=(0, 1)),))
    assert [(one.seat.id, one.seat.numa_nodes, one.hca) for one in seats] == [
        ("any-s0", (0, 1), "0000:05:00.0"),
        ("n0-s1", (0,), "0000:02:00.0"),
        ("n1-s0", (1,), "0000:09:00.0"),
    ]


def test_bound_containers_add_to_what_was_remembered() -> None:
    """A seat that the disk refused comes back beside those remembered, and none comes twice (law 6, law 7)."""
    remembered = offer(machine(hca(1)), _POOL)
    containers = [
        Container(seats=("n0-s0",), hcas=(hca(1).address,)),
        Container(seats=("n0-s3",), hcas=(hca(4).address,)),
        Container(seats=("n0-s4",), hcas=(hca(1).address,)),
    ]
    seats = recalled(remembered, containers, ())
    assert {"n0-s0": hca(1).address, "n0-s3": hca(4).address} == {one.seat.id: one.hca for one in seats}


@pytest.mark.parametrize(
    ("held", "hint"),
    [((HeldId(id="any-s0"),), ()), ((HeldId(id="any-s0", numa_nodes=(1,)),), (1,)), ((), (0,))],
    ids=["recorded-bare", "recorded", "not-held"],
)
def test_a_recalled_hint_is_the_recorded_one(held: tuple[HeldId, ...], hint: tuple[int, ...]) -> None:
    """What the kubelet recorded of a held id stands; another is not left bare among hinted ones (law 4)."""
    containers = [
        Container(seats=("any-s0",), hcas=(hca(5).address,)),
        Container(seats=("n0-s0",), hcas=(hca(1).address,)),
    ]
    assert hint == recalled((), containers, held)[0].seat.numa_nodes


_HCAS = st.builds(
    hca,
    st.integers(min_value=0, max_value=7),
    st.sampled_from([None, 0, 1]),
    ports=st.sampled_from([(port(),), (port(PortState.DOWN),)]),
)
_MACHINES = st.lists(_HCAS, unique_by=lambda one: one.address, max_size=8).map(
    lambda hcas: machine(*sorted(hcas, key=_address))
)


def _address(one: Hca) -> str:
    return one.address


_HELD = st.lists(
    st.builds(HeldId, id=st.sampled_from(["n0-s0", "n1-s1", "any-s0", "theirs"]), numa_nodes=st.just((0,))),
    unique_by=lambda one: one.id,
).map(tuple)


@given(st.lists(st.tuples(_MACHINES, _HELD), min_size=1, max_size=6), st.integers(min_value=1, max_value=3))
def test_the_list_never_shrinks_and_nothing_listed_changes(
    looks: list[tuple[Machine, tuple[HeldId, ...]]], share: int
) -> None:
    """Whatever HCAs come and go, ids, hints and HCAs of listed seats stay, and no id is given twice (law 1, 4)."""
    pool = Pool(share=share)
    before: Offer = ()
    for one, held in looks:
        after = offer(one, pool, before, held)
        assert {one.id for one in held} == {seat.seat.id for seat in after if seat.held}
        assert _facts(before) == _facts(after)[: len(before)]
        assert len(set(_ids(after))) == len(after)
        assert len({bool(hint) for hint in _hints(after)}) <= 1
        assert {hca.address for hca in one.hcas} <= {seat.hca for seat in after}
        before = after


@given(_MACHINES)
def test_looking_again_changes_nothing(one: Machine) -> None:
    """The list of an unchanged machine is the same list."""
    seats = offer(one, _POOL)
    assert seats == offer(one, _POOL, seats)


def _facts(seats: Offer) -> list[object]:
    """All that must never change of a listed seat."""
    return [msgspec.structs.replace(one, illness=None, held=False) for one in seats]
