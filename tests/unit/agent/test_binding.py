import msgspec
import pytest
from tests.unit.agent.situations import (
    RULES,
    address,
    answer,
    beside,
    binding,
    entry,
    gpus_of,
    held,
    placed,
    rules,
    situation,
    used,
)
from tests.unit.builders import port

from railside_agent.binding import Bound, Refused, bind, farther_than_needed
from railside_agent.container_start import ContainerStart, container_start, held_gpus
from railside_agent.holders import Entry
from railside_agent.rules import Rules
from railside_agent.situation import Situation
from railside_agent.soundness import Course, Courses
from railside_proto.machine import PathClass, PortState
from railside_proto.pool import Binding, Mode, Pool
from railside_proto.reasons import Code

_DOWN = (port(PortState.DOWN),)
_TWO_A_ZONE = (placed(1), placed(2), placed(3, 1), placed(4, 1))
_GPUS = (beside(1), beside(2), beside(3, 1), beside(4, 1))


class _Case(msgspec.Struct, kw_only=True):
    """A start and what it is decided on."""

    now: Situation
    seats: tuple[str, ...]
    pool: Pool = Pool()
    by: Rules = RULES
    courses: Courses | None = None

    def start(self) -> ContainerStart:
        return container_start(self.seats, self.now, self.pool, self.by)

    def outcome(self) -> Bound | Refused:
        use = used(self.now, pool=self.pool, by=self.by, courses=self.courses)
        gpus = self.now.machine.gpus if self.now.machine else ()
        return bind(self.start(), use, held_gpus(self.now, self.by), gpus)

    def bound(self) -> Bound:
        outcome = self.outcome()
        assert isinstance(outcome, Bound), outcome
        return outcome

    def numbers(self) -> list[int]:
        """The HCAs' numbers, in the order of the seats."""
        return [int(hca.name.removeprefix("mlx5_")) for hca in self.bound().hcas]


def _case(
    *seats: str, entries: tuple[Entry, ...] = (), bindings: tuple[Binding, ...] = (), **facts: object
) -> _Case:
    """A container of pod p with ``seats``, on a machine of two HCAs and two GPUs a NUMA node."""
    hcas = facts.pop("hcas", _TWO_A_ZONE)
    mode = facts.pop("mode", Mode.IB_SHARED)
    now = situation(*hcas, gpus=_GPUS, entries=(entry("p", *seats), *entries), bindings=bindings, mode=mode)  # type: ignore[misc]
    return msgspec.structs.replace(_Case(now=now, seats=seats), **facts)


def test_a_container_gets_hcas_in_the_order_of_its_seats() -> None:
    """Seats come in order, whatever the kubelet's; HCAs are of each one's zone, and locked to the pod."""
    bound = _case("n1-s0", "n0-s0").bound()
    assert binding("p", n0_s0=1, n1_s0=3) == bound.binding


# What was bound before


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        pytest.param(binding("p", n0_s0=2), [2], id="its-own"),
        pytest.param(binding(None, n0_s0=2), [2], id="not-locked-yet"),
        pytest.param(binding("old", n0_s0=2), [1], id="of-a-pod-that-held-the-seat-before"),
        pytest.param(binding("p", n0_s7=2), [1], id="of-another-seat"),
        pytest.param(binding("p", n0_s0=9), [1], id="of-an-hca-that-is-gone"),
    ],
)
def test_a_seat_keeps_the_hca_of_its_own_pod(bound: Binding, expected: list[int]) -> None:
    """A container that starts again has its HCA again; a lock of another pod is not kept (B-DP-23)."""
    assert expected == _case("n0-s0", bindings=(bound,)).numbers()


def test_in_doubt_a_seat_keeps_its_hca_whoever_had_it() -> None:
    """Beside an old checkpoint nobody can say whose seat it is, and an HCA more would be taken for nothing."""
    case = _case("n0-s0", bindings=(binding("old", n0_s0=1),))
    case.now = msgspec.structs.replace(case.now, doubtful=True)
    assert case.numbers() == [1]


def test_a_kept_hca_beats_a_nearer_one() -> None:
    """What a pod has started with it keeps, though by now a nearer one is free."""
    case = _case("n0-s0", entries=(gpus_of("p", "GPU-1"),), bindings=(binding("p", n0_s0=2),))
    assert case.numbers() == [2]
    assert [(pair.gpu, pair.hca) for pair in case.bound().pairs] == [(beside(1).address, address(2))]


def test_an_hca_that_moved_to_another_zone_is_kept() -> None:
    """A seat keeps its HCA though that is at another NUMA node by now, and the other zone's seat has one, too."""
    moved = (placed(1, 1), *_TWO_A_ZONE[1:])
    assert _case("n0-s0", hcas=moved, bindings=(binding("p", n0_s0=1),)).numbers() == [1]
    both = _case("n0-s0", "n1-s0", hcas=moved, bindings=(binding("p", n0_s0=1),)).numbers()
    assert (both[0], both[1] in {3, 4}) == (1, True)


def test_a_seat_that_fits_everywhere_in_a_list_with_hints() -> None:
    """When no HCA is without a NUMA node any more, such a seat goes where most is free, and its pod starts."""
    entries = (entry("q", "n0-s0"), entry("p", ids=(held("any-s0", 0, 1),)))
    now = situation(*_TWO_A_ZONE, gpus=_GPUS, entries=entries, bindings=(binding("q", n0_s0=1),))
    assert _Case(now=now, seats=("any-s0",)).numbers() == [3]


@pytest.mark.parametrize(
    ("bound", "mode", "expected"),
    [
        pytest.param((binding(None, n0_s0=1),), Mode.IB_SHARED, 1, id="nobody-else-has-it"),
        pytest.param((binding(None, n0_s0=1), binding("q", n0_s1=1)), Mode.IB_SHARED, 2, id="another-has-it-now"),
        pytest.param(
            (binding(None, n0_s0=1), binding("q", n0_s1=1)), Mode.IB_SHARED_MULTI, 1, id="another-shares-it"
        ),
        pytest.param((binding("p", n0_s0=1), binding("q", n0_s1=1)), Mode.IB_SHARED, 1, id="its-own"),
    ],
)
def test_what_may_have_been_its_own_is_kept_where_others_leave_room(
    bound: tuple[Binding, ...], mode: Mode, expected: int
) -> None:
    """A binding of nobody knows whom is no claim: its HCA may have been given away since (law 7)."""
    entries = (entry("p", "n0-s0"), entry("q", "n0-s1"))
    now = situation(*_TWO_A_ZONE, gpus=_GPUS, entries=entries, bindings=bound, mode=mode)
    assert _Case(now=now, seats=("n0-s0",)).numbers() == [expected]


def test_a_seat_of_a_pod_that_runs_is_not_started_by_another() -> None:
    """A kubelet that lost its checkpoint deals the seat of a pod that runs: nobody else starts with it (law 7)."""
    entries = (entry("q", "n0-s0"),)
    now = situation(*_TWO_A_ZONE, entries=entries, bindings=(binding("p", n0_s0=1),), alive=frozenset({"p"}))
    outcome = _Case(now=now, seats=("n0-s0",)).outcome()
    assert isinstance(outcome, Refused)
    assert outcome.reason.code is Code.DEALT_TWICE


def test_what_another_plugins_pod_has_is_not_kept() -> None:
    """An old binding of nobody knows whom brings back no HCA that another plugin has dealt since (law 2)."""
    theirs = entry("theirs", ids=(held("x", 0),), answer=answer("/dev/infiniband/uverbs1"))
    now = situation(
        *_TWO_A_ZONE, entries=(theirs, entry("p", "n0-s0")), bindings=(binding(None, n0_s0=1),), gpus=_GPUS
    )
    assert _Case(now=now, seats=("n0-s0",)).numbers() == [2]


def test_in_doubt_nobody_gets_what_another_was_bound_to_since() -> None:
    """With a checkpoint that tells nothing, a seat's earlier HCA goes to it only as long as nobody else has it."""
    bound = (binding("old", n0_s1=2), binding("p", n0_s0=2), binding("q", n1_s0=3))
    now = situation(*_TWO_A_ZONE, gpus=_GPUS, doubtful=True, bindings=bound)
    assert _Case(now=now, seats=("n0-s1",)).numbers() == [1]


def test_an_ill_hca_is_exchanged_for_another_of_its_zone() -> None:
    """A container whose HCA fell ill starts on a sound one of its zone (law 8, B-DP-37)."""
    hcas = (placed(1, ports=_DOWN), *_TWO_A_ZONE[1:])
    assert _case("n0-s0", hcas=hcas, bindings=(binding("p", n0_s0=1),)).numbers() == [2]


def test_an_hca_that_recovers_is_kept_by_who_has_it() -> None:
    """The recovery window keeps an HCA from new hands, and not from those that have it (law 8, B-DP-38)."""
    courses = {address(2): Course(well_since=0.0, flaps=1)}
    kept = _case("n0-s0", bindings=(binding("p", n0_s0=2),), courses=courses)
    fresh = _case("n0-s0", bindings=(binding("q", n0_s1=1),), entries=(entry("q", "n0-s1"),), courses=courses)
    assert kept.numbers() == [2]
    assert isinstance(fresh.outcome(), Refused)


def test_one_of_two_seats_is_exchanged() -> None:
    """The seat whose HCA is sound keeps it, the other gets what is free."""
    hcas = (placed(1, ports=_DOWN), placed(2), placed(5))
    case = _case("n0-s0", "n0-s1", hcas=hcas, bindings=(binding("p", n0_s0=1, n0_s1=2),))
    assert case.numbers() == [5, 2]


# What must wait


@pytest.mark.parametrize(
    ("case", "code", "sentence"),
    [
        pytest.param(
            _case("n0-s0", hcas=(placed(1, ports=_DOWN), placed(3, 1))),
            Code.NO_FREE_HCA,
            "no sound HCA of zone n0 is free for 1 of the container's seats: mlx5_1 is not sound (NoActivePort)",
            id="B-DP-37-ill",
        ),
        pytest.param(
            _case("n0-s0", hcas=(placed(3, 1),), by=rules(advertise_topology="always")),
            Code.NO_FREE_HCA,
            "no sound HCA of zone n0 is free for 1 of the container's seats: the zone has no HCA",
            id="B-DP-41-gone",
        ),
        pytest.param(
            _case(
                "n0-s0",
                entries=(entry("q", "n0-s1"), entry("r", ids=(held("x", 0),))),
                bindings=(binding("q", n0_s1=1),),
            ),
            Code.NO_FREE_HCA,
            "mlx5_1 serves 1, mlx5_2 is held by another plugin's pod",
            id="in-other-hands",
        ),
        pytest.param(
            _case("n0-s0", "n0-s1", "n0-s2", "n1-s0"),
            Code.NO_FREE_HCA,
            "no sound HCA of zone n0 is free for 1 of the container's seats: mlx5_1 serves 0, mlx5_2 serves 0",
            id="more-seats-than-hcas",
        ),
        pytest.param(
            _case("n0-s0", "n1-s0", hcas=(*_TWO_A_ZONE[:2], placed(3, 1, ports=_DOWN))),
            Code.NO_FREE_HCA,
            "of zone n1 is free for 1",
            id="one-zone-of-two",
        ),
        pytest.param(
            _case("n0-s0", mode=None, bindings=(binding("old", n0_s0=2),)),
            Code.NO_FREE_HCA,
            "zone n0 is free for 1",
            id="no-mode",
        ),
        pytest.param(
            _case("n0-s0", entries=(entry("q", "n0-s0", "n0-s1"),)),
            Code.DEALT_TWICE,
            "the kubelet dealt seat n0-s0 to pods p and q at the same time",
            id="dealt-twice",
        ),
    ],
)
def test_what_cannot_be_served_waits(case: _Case, code: Code, sentence: str) -> None:
    """A start is refused with the state of each HCA of the zone, or with the pods that share a seat by mistake."""
    outcome = case.outcome()
    assert isinstance(outcome, Refused)
    assert code is outcome.reason.code
    assert sentence in outcome.reason.sentence


def test_a_container_without_a_mode_keeps_what_it_has() -> None:
    """A label that is taken away stops no container that has started before."""
    assert _case("n0-s0", mode=None, bindings=(binding("p", n0_s0=2),)).numbers() == [2]


# Nearness


@pytest.mark.parametrize(
    ("seats", "gpus", "expected"),
    [
        pytest.param(["n0-s0"], ["GPU-2"], [2], id="one"),
        pytest.param(["n0-s0", "n0-s1"], ["GPU-2"], [1, 2], id="more-seats-than-gpus"),
        pytest.param(["n0-s0"], ["GPU-3", "GPU-2"], [2], id="more-gpus-than-seats"),
        pytest.param(["n0-s0", "n1-s0"], ["GPU-2", "GPU-4"], [2, 4], id="one-in-each-zone"),
        pytest.param(["n1-s0"], ["GPU-2"], [3], id="in-another-zone"),
        pytest.param(
            ["n0-s0", "n0-s1", "n1-s0", "n1-s1"], ["GPU-1", "GPU-2", "GPU-3", "GPU-4"], [1, 2, 3, 4], id="wide"
        ),
    ],
)
def test_hcas_are_those_nearest_to_the_gpus(seats: list[str], gpus: list[str], expected: list[int]) -> None:
    """Of the free HCAs of the seats' zones, a container gets those that are nearest to its GPUs."""
    assert expected == sorted(_case(*seats, entries=(gpus_of("p", *gpus),)).numbers())


def test_each_gpu_of_a_wide_container_has_its_own_hca_beside_it() -> None:
    """Where a zone has more HCAs than a container asks for, it gets those beside its GPUs, each of them."""
    entries = (entry("p", "n0-s0", "n0-s1"), gpus_of("p", "GPU-2", "GPU-3"))
    now = situation(*map(placed, (1, 2, 3)), gpus=map(beside, (1, 2, 3)), entries=entries)
    assert sorted(_Case(now=now, seats=("n0-s0", "n0-s1")).numbers()) == [2, 3]


def test_pairs_tell_the_path_of_each_gpu() -> None:
    """Which HCA serves which GPU, and how far it is, is part of the outcome."""
    case = _case("n0-s0", "n1-s0", entries=(gpus_of("p", "GPU-2", "GPU-4"),))
    expected = [(beside(2).address, address(2), PathClass.PIX), (beside(4, 1).address, address(4), PathClass.PIX)]
    assert expected == [(pair.gpu, pair.hca, pair.path) for pair in case.bound().pairs]


def test_without_gpus_the_places_beside_free_gpus_are_left() -> None:
    """Who has no GPU gets the HCA whose GPU is held by somebody else."""
    assert _case("n0-s0", entries=(gpus_of("q", "GPU-2"),)).numbers() == [2]


def test_without_hints_hcas_come_from_all_nodes() -> None:
    """Where seats are bare, the nearest HCA of the whole machine is chosen."""
    seats = entry("p", "any-s0")
    now = situation(*_TWO_A_ZONE, gpus=_GPUS, entries=(seats, gpus_of("p", "GPU-4")))
    assert _Case(now=now, seats=("any-s0",), by=rules(advertise_topology="never")).numbers() == [4]


def test_a_seat_under_another_plugins_id_is_of_the_recorded_zone() -> None:
    """An id of theirs that was dealt again by us is served from where the kubelet recorded it (law 2)."""
    ours = entry("p", ids=(held("mlx5_0", 1),), answer=answer("/run/railside/alloc/x/ib"))
    now = situation(*_TWO_A_ZONE, entries=(ours,))
    assert _Case(now=now, seats=("mlx5_0",)).numbers() == [3]


# ib-shared-multi


def _multi(
    *seats: str, entries: tuple[Entry, ...] = (), bindings: tuple[Binding, ...] = (), share: int = 2
) -> _Case:
    pool = Pool(shares_per_hca=share)
    return _case(*seats, entries=entries, bindings=bindings, mode=Mode.IB_SHARED_MULTI, pool=pool)


_OTHER = (entry("q", "n0-s5"),)
_ON_1 = (binding("q", n0_s5=1),)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(_multi("n0-s0", entries=_OTHER, bindings=_ON_1), [2], id="least-shared-first"),
        pytest.param(
            _multi("n0-s0", "n0-s1", entries=_OTHER, bindings=_ON_1), [1, 2], id="distinct-before-less-shared"
        ),
        pytest.param(
            _multi("n0-s0", "n0-s1", entries=_OTHER, bindings=(binding("q", n0_s5=2),)),
            [1, 2],
            id="distinct-whichever-is-shared",
        ),
        pytest.param(
            _multi("n0-s0", "n0-s1", "n0-s2", entries=_OTHER, bindings=_ON_1, share=3),
            [1, 2, 2],
            id="second-shares-of-the-less-shared",
        ),
        pytest.param(
            _multi("n0-s0", entries=(*_OTHER, gpus_of("p", "GPU-1")), bindings=_ON_1),
            [1],
            id="near-before-less-shared",
        ),
        pytest.param(
            _multi("n0-s0", "n0-s1", "n0-s2", entries=_OTHER, bindings=_ON_1), [1, 2, 2], id="second-shares"
        ),
        pytest.param(_multi("n0-s0", "n0-s1", "n0-s2", "n0-s3"), [1, 1, 2, 2], id="evenly"),
        pytest.param(
            _multi("n0-s0", "n0-s1", "n0-s2", bindings=(binding("p", n0_s0=2),)), [1, 1, 2], id="beside-a-kept-one"
        ),
    ],
)
def test_shares_of_hcas(case: _Case, expected: list[int]) -> None:
    """Distinct HCAs come before second shares, nearness before less sharing, and no share is given twice."""
    assert expected == sorted(case.numbers())


def test_more_seats_than_shares_wait() -> None:
    """A container never gets more shares than there are."""
    outcome = _multi(*(f"n0-s{number}" for number in range(4)), entries=_OTHER, bindings=_ON_1).outcome()
    assert isinstance(outcome, Refused)
    assert "is free for 1 of" in outcome.reason.sentence


def test_init_and_main_containers_with_the_same_seats_are_one_user() -> None:
    """What an init container was bound to, the main one of its pod has again."""
    init = entry("p", "n0-s0", container="init")
    assert _case("n0-s0", entries=(init,), bindings=(binding("p", n0_s0=2),)).numbers() == [2]


# Farther than needed


def _farther(case: _Case) -> str | None:
    found = farther_than_needed(case.bound(), case.start(), used(case.now, pool=case.pool, by=case.by))
    assert found is None or found.code is Code.FARTHER_THAN_NEEDED
    return found.sentence if found else None


@pytest.mark.parametrize(
    ("case", "obstacle"),
    [
        pytest.param(_case("n0-s0", entries=(gpus_of("p", "GPU-1"),)), None, id="as-near-as-can-be"),
        pytest.param(_case("n0-s0"), None, id="no-gpu"),
        pytest.param(
            _case("n1-s0", entries=(gpus_of("p", "GPU-1"),)),
            "is served at SYS; this node has an HCA at PIX that is on another NUMA node than the seats that the"
            " kubelet dealt",
            id="other-zone",
        ),
        pytest.param(
            _case(
                "n0-s0", entries=(gpus_of("p", "GPU-1"),), hcas=(placed(1, ports=_DOWN), placed(2), placed(3, 1))
            ),
            "is served at NODE; this node has an HCA at PIX that is not sound",
            id="not-sound",
        ),
        pytest.param(
            _case(
                "n0-s0", entries=(gpus_of("p", "GPU-1"), entry("q", "n0-s1")), bindings=(binding("q", n0_s1=1),)
            ),
            "is served at NODE; this node has an HCA at PIX that is in other hands",
            id="in-other-hands",
        ),
        pytest.param(
            _case("n0-s0", entries=(gpus_of("p", "GPU-1"),), hcas=(placed(2), placed(3, 1))),
            None,
            id="the-node-has-nothing-nearer",
        ),
    ],
)
def test_what_kept_an_hca_farther_off(case: _Case, obstacle: str | None) -> None:
    """A GPU that is served from farther off than the node could says what stood in the way, and else nothing."""
    told = _farther(case)
    assert (told is None) == (obstacle is None)
    assert (obstacle or "") in (told or "")
