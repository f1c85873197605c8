import msgspec
import pytest
from tests.unit.agent.situations import (
    POOL,
    RULES,
    address,
    beside,
    binding,
    entry,
    gpus_of,
    placed,
    situation,
)
from tests.unit.builders import hca, machine, port

from railside_agent.binding import Bound, Refused
from railside_agent.holders import Checkpoint, Entry
from railside_agent.seats import Books
from railside_agent.situation import Situation
from railside_agent.soundness import Course
from railside_agent.start_decision import Enforced, StartDecision, decide_deal, decide_start, renewed
from railside_proto.machine import PathClass, PortState
from railside_proto.pool import Binding, Pair
from railside_proto.reasons import Code, reason

_HCAS = (placed(1), placed(2), placed(3, 1))
_TRAIN = (entry("p", "n0-s0"), gpus_of("p", "GPU-3"))
_FAR = situation(*_HCAS, gpus=(beside(1), beside(3, 1)), entries=_TRAIN)


def _decide(now: Situation, enforced: Enforced | None = None, books: Books | None = None) -> StartDecision:
    return decide_start(("n0-s0",), now, books or Books(), POOL, RULES, enforced=enforced or {})


def _code(decision: StartDecision) -> Code | None:
    return decision.outcome.reason.code if isinstance(decision.outcome, Refused) else None


def test_a_start_is_decided_and_explained() -> None:
    """The decision names pod and GPUs, the HCA, and what kept it farther off than it could be."""
    decision = _decide(_FAR)
    assert isinstance(decision.outcome, Bound)
    assert ("p", [beside(3, 1)], Binding) == (
        decision.start.pod,
        list(decision.start.gpus),
        type(decision.outcome.binding),
    )
    assert decision.farther is not None
    assert decision.farther.code is Code.FARTHER_THAN_NEEDED


@pytest.mark.parametrize(
    ("enforced", "code"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"p": PathClass.PXB}, Code.LOCALITY_NOT_MET, id="pcie"),
        pytest.param({"p": PathClass.NODE}, Code.LOCALITY_NOT_MET, id="numa"),
        pytest.param({"p": PathClass.SYS}, None, id="just-as-far"),
        pytest.param({"q": PathClass.PXB}, None, id="another-pod"),
    ],
)
def test_what_a_pod_insists_on_is_kept(enforced: Enforced, code: Code | None) -> None:
    """A pod that had rather not start than have its HCA farther off does not start."""
    assert code == _code(_decide(_FAR, enforced))


def test_the_refusal_names_the_gpu_and_both_distances() -> None:
    """Whoever reads it knows what was wanted and what there is."""
    outcome = _decide(_FAR, {"p": PathClass.PXB}).outcome
    expected = reason(Code.LOCALITY_NOT_MET, wanted="PXB", gpu=beside(3, 1).address, path="SYS")
    assert Refused(reason=expected) == outcome


def test_a_pod_without_gpus_has_nothing_to_insist_on() -> None:
    """Nearness is between HCAs and GPUs: without a GPU a pod starts."""
    now = situation(*_HCAS, entries=_TRAIN[:1])
    assert _code(_decide(now, {"p": PathClass.PXB})) is None


def test_near_enough_is_not_refused() -> None:
    """A pod that insists gets the HCA that is near enough."""
    now = situation(*_HCAS, gpus=(beside(1), beside(2)), entries=(entry("p", "n0-s0"), gpus_of("p", "GPU-2")))
    decision = _decide(now, {"p": PathClass.PXB})
    assert isinstance(decision.outcome, Bound)
    assert ((address(2),), None) == (decision.outcome.binding.hcas, decision.farther)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param((), 1, id="any-of-those-beside-free-gpus"),
        pytest.param((gpus_of("q", "GPU-1"),), 2, id="none-whose-gpu-is-held"),
        pytest.param((gpus_of("q", "GPU-1", "GPU-2"),), 1, id="unless-all-are"),
    ],
)
def test_what_is_dealt_before_gpus_are_known(entries: tuple[Entry, ...], expected: int) -> None:
    """Most who ask for HCAs have GPUs, too: those whose GPU is in other hands are of no use to them (B-DP-48)."""
    now = situation(placed(1), placed(2), gpus=(beside(1), beside(2)), entries=entries)
    outcome = decide_deal(("n0-s0",), now, Books(), POOL, RULES).outcome
    assert isinstance(outcome, Bound)
    assert (address(expected),) == outcome.binding.hcas


_WIDE = entry("p", "n0-s0", "n0-s1", container="init")
_BEFORE = (binding("p", n0_s0=1, n0_s1=2),)


@pytest.mark.parametrize(
    ("bindings", "expected"),
    [
        pytest.param(_BEFORE, 2, id="what-the-init-container-had"),
        pytest.param((*_BEFORE, binding("p", n0_s0=1)), 1, id="what-it-had-itself"),
        pytest.param((*_BEFORE, binding("p", n0_s1=2)), 1, id="unless-another-main-container-has-it"),
    ],
)
def test_after_a_wider_init_container_the_nearest_is_chosen_anew(
    bindings: tuple[Binding, ...], expected: int
) -> None:
    """What an init container had for some of the seats binds no main container to an HCA farther off (B-DP-48)."""
    entries = (_WIDE, entry("p", "n0-s0"), gpus_of("p", "GPU-2"))
    now = situation(placed(1), placed(2), gpus=(beside(1), beside(2)), entries=entries, bindings=bindings)
    outcome = _decide(now).outcome
    assert isinstance(outcome, Bound)
    assert (address(expected),) == outcome.binding.hcas


def test_a_start_says_whose_bindings_it_replaces() -> None:
    """An init container's binding counts no longer when the main one has some of its seats, and no others do."""
    others = (binding("p", n0_s0=1), binding("p", n0_s1=2), binding("q", n0_s0=1, n0_s1=2))
    assert _decide(situation(*_HCAS, entries=(_WIDE, *_TRAIN))).replaces((*_BEFORE, *others)) == _BEFORE


def test_an_hca_that_fell_ill_since_the_list_is_not_given() -> None:
    """A start follows the machine of this moment, not the one of the last list (law 8)."""
    now = situation(placed(1, ports=(port(PortState.DOWN),)), entries=_TRAIN[:1])
    books = Books(courses={address(1): Course()})
    assert _code(_decide(now, books=books)) is Code.NO_FREE_HCA


def test_an_hca_that_has_just_come_back_is_not_given() -> None:
    """An HCA that was ill at the last list is still recovering at the start that sees it well (law 8)."""
    books = Books(courses={address(1): Course(illness=reason(Code.HCA_GONE, address=address(1)), flaps=1)})
    assert _code(_decide(situation(placed(1), entries=_TRAIN[:1]), books=books)) is Code.NO_FREE_HCA


def test_beside_a_torn_checkpoint_nobody_knows_whose_container_starts() -> None:
    """An old checkpoint may name the pod that had the seats before: the start is bound, and locked to no pod."""
    now = msgspec.structs.replace(_FAR, checkpoint=None)
    decision = _decide(now, books=Books(checkpoint=Checkpoint(entries=_TRAIN)))
    assert isinstance(decision.outcome, Bound)
    assert (None, (), binding(None, n0_s0=2)) == (
        decision.start.pod,
        decision.start.gpus,
        decision.outcome.binding,
    )


@pytest.mark.parametrize("last", [None, Checkpoint(entries=_TRAIN)], ids=["no-checkpoint", "an-old-one"])
def test_beside_a_torn_checkpoint_a_seat_means_what_it_did(last: Checkpoint | None) -> None:
    """A container that starts again in doubt has its own HCA again, and nobody else's (law 8)."""
    now = msgspec.structs.replace(_FAR, checkpoint=None, bindings=(binding("p", n0_s0=2), binding("q", n0_s1=1)))
    outcome = _decide(now, books=Books(checkpoint=last)).outcome
    assert isinstance(outcome, Bound)
    assert binding(None, n0_s0=2) == outcome.binding


_MIG = gpus_of("p", "MIG-7", resource="nvidia.com/mig-1g.5gb")


@pytest.mark.parametrize(
    ("gpus", "told"),
    [
        pytest.param((_MIG,), "MIG-7", id="a-slice-alone"),
        pytest.param((gpus_of("p", "GPU-1"), _MIG), "MIG-7", id="a-slice-beside-a-near-one"),
        pytest.param((gpus_of("p", "GPU-1", "GPU-2"),), str(beside(2).address), id="more-gpus-than-hcas"),
    ],
)
def test_a_pod_that_insists_does_so_for_each_gpu(gpus: tuple[Entry, ...], told: str) -> None:
    """A GPU without an HCA of its own, or whose place nobody knows, is not passed over."""
    now = situation(*_HCAS, gpus=(beside(1), beside(2)), entries=(entry("p", "n0-s0"), *gpus))
    outcome = _decide(now, {"p": PathClass.PIX}).outcome
    assert isinstance(outcome, Refused)
    assert (outcome.reason.code, told in outcome.reason.sentence) == (Code.LOCALITY_NOT_MET, True)


def test_before_the_first_look_nothing_starts() -> None:
    """Without a machine there is no HCA to give, and what is known of illness is not forgotten."""
    now = msgspec.structs.replace(_FAR, machine=None)
    assert _code(_decide(now)) is Code.NO_FREE_HCA


def test_a_refusal_before_anything_was_decided() -> None:
    """A start that fails outside the core is a refusal of just those seats."""
    why = reason(Code.LOOK_FAILED, detail="slow")
    decision = StartDecision.refusal(("a", "b"), why)
    assert (("a", "b"), Refused(reason=why), None) == (decision.start.seats, decision.outcome, decision.start.pod)


_PAIR = Pair(gpu=beside(1).address, hca=address(1), path=PathClass.PIX)
_BOUND = msgspec.structs.replace(binding("p", n0_s0=1, n0_s1=2), pairs=(_PAIR,))


def test_what_is_bound_is_laid_out_under_its_new_names() -> None:
    """A binding whose HCAs are called otherwise by now is the same binding with today's names (law 9)."""
    renamed = hca(1, name="mlx5_7", uverbs=hca(9).uverbs)
    decision = renewed(_BOUND, machine(renamed, hca(2), gpus=(beside(1), beside(2))))
    assert decision is not None
    assert isinstance(decision.outcome, Bound)
    assert ((renamed, hca(2)), _BOUND, (beside(1),)) == (
        decision.outcome.hcas,
        decision.outcome.binding,
        decision.start.gpus,
    )


@pytest.mark.parametrize("here", [(hca(1),), (hca(2),), ()], ids=["second-gone", "first-gone", "both-gone"])
def test_what_is_bound_to_an_hca_that_is_gone_is_not_renewed(here: tuple[object, ...]) -> None:
    """With one of its HCAs gone a container finds nothing (law 9)."""
    assert renewed(_BOUND, machine(*here)) is None  # type: ignore[arg-type]
