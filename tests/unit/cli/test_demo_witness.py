from fractions import Fraction

import pytest
from tests.unit.cli.demo_values import pod, the_hardware

from railside_cli.demo.sight import Seen
from railside_cli.demo.verdict import verdict
from railside_cli.demo.witness import Moment, Verdict, Witness


def moment(*others: Seen, share: int = 1, kept_out: frozenset[str] = frozenset()) -> Moment:
    return Moment(share=share, others={one.pod: one for one in others}, kept_out=kept_out)


def judged(now: Seen, at: Moment, *, asked: int = 1, before: Seen | None = None) -> Verdict:
    """What is said of one start, behind a sound one of ``before``."""
    witness = Witness(the_hardware())
    if before is not None:
        witness.started(before, len(before.hcas), moment())
    witness.started(now, asked, at)
    return witness.verdict


def faults(now: Seen, at: Moment, *, asked: int = 1, before: Seen | None = None) -> list[str]:
    return list(judged(now, at, asked=asked, before=before).faults)


def test_a_pair_on_one_switch_is_as_near_as_can_be() -> None:
    """A pod whose GPU has the HCA of its switch counts as such, and is no fault."""
    found = judged(pod("a", "mlx5_0", gpus=(0,)), moment())
    assert (found.starts, found.pairs, found.nearest, found.moved, found.faults) == (1, 1, 1, 0, ())


def test_an_hca_in_two_hands_is_a_fault_beyond_the_share() -> None:
    """One HCA in two pods is a fault where one may have it, and none where two may."""
    now, other = pod("a", "mlx5_0"), pod("b", "mlx5_0")
    assert faults(now, moment(other)) == ["mlx5_0 is in the hands of a and b, and 1 may have it"]
    assert faults(now, moment(other, share=2)) == []


def test_more_or_fewer_hcas_than_asked_for_is_a_fault() -> None:
    """A pod that asked for one must see one."""
    assert faults(pod("a", "mlx5_0", "mlx5_3"), moment()) == ["a asked for 1 and sees 2 HCAs"]
    assert faults(pod("a"), moment()) == ["a asked for 1 and sees 0 HCAs"]


def test_a_farther_hca_than_could_be_had_is_a_fault() -> None:
    """A pair at NODE is a fault while the HCA of the switch is free, and none while another pod has it."""
    now = pod("a", "mlx5_3", gpus=(0,))
    assert faults(now, moment()) == ["a could have had its HCAs at PIX"]
    assert faults(now, moment(pod("b", "mlx5_0"))) == []
    assert faults(now, moment(kept_out=frozenset({"mlx5_0"}))) == []


def test_a_container_that_reads_what_is_not_true_is_a_fault() -> None:
    """The path class that a pod reads is held against the machine."""
    read = pod("a", "mlx5_3", gpus=(0,), told=("PIX",))
    assert "a reads PIX of GPU0 and mlx5_3, which is NODE" in faults(read, moment(pod("b", "mlx5_0")))


def test_a_container_that_reads_nothing_of_its_gpu_is_a_fault() -> None:
    """A pod with GPU and HCA must be told how near they are."""
    silent = Seen(pod="a", hcas=pod("a", "mlx5_0").hcas, gpus=pod("a", gpus=(0,)).gpus, nodes=())
    assert "a reads of 0 pairs" in faults(silent, moment())


def test_an_hca_that_nobody_may_get() -> None:
    """A dead HCA in new hands is a fault; who has had it may start again and keep it."""
    at = moment(kept_out=frozenset({"mlx5_0"}))
    now = pod("a", "mlx5_0")
    assert faults(now, at) == ["a got mlx5_0, which nobody new may get"]
    assert faults(now, at, before=now) == []


def test_a_restart_that_changes_a_sound_hca_is_a_fault() -> None:
    """A pod may get another HCA at a start only if the one it had is no good any more."""
    before, now = pod("a", "mlx5_0"), pod("a", "mlx5_3")
    assert faults(now, moment(), before=before) == ["a lost mlx5_0, which was sound"]
    assert faults(now, moment(kept_out=frozenset({"mlx5_0"})), before=before) == []


def test_a_gpu_that_moves_is_counted_apart() -> None:
    """Only first starts are held against chance."""
    before, now = pod("a", "mlx5_0", gpus=(0,)), pod("a", "mlx5_3", gpus=(0,))
    found = judged(now, moment(kept_out=frozenset({"mlx5_0"})), before=before)
    assert (found.pairs, found.nearest, found.moved) == (1, 1, 1)


@pytest.mark.parametrize("later", [None, pod("a", "mlx5_3")])
def test_a_pod_that_was_left_alone_and_lost_something(later: Seen | None) -> None:
    """A pod that nobody touched must still run, on what it had."""
    witness = Witness(the_hardware())
    witness.started(pod("a", "mlx5_0"), 1, moment())
    witness.still(pod("a", "mlx5_0"), "a")
    before = witness.verdict
    witness.still(later, "a")
    assert (before.faults, witness.verdict.faults) == ((), ("a lost what it had",))


def test_an_ended_pod_may_come_again_with_another_hca() -> None:
    """What a pod of the same name had before it ended is nobody's."""
    witness = Witness(the_hardware())
    witness.started(pod("a", "mlx5_0"), 1, moment())
    witness.ended("a")
    assert witness.known == ()
    witness.started(pod("a", "mlx5_3"), 1, moment())
    assert witness.verdict.faults == ()


def test_the_verdict_is_sound_without_faults() -> None:
    """Counts of all nodes are added up, and chance stands beside them."""
    one = Verdict(starts=3, pairs=2, nearest=2, moved=1, faults=())
    sound, sentences = verdict([one, one], Fraction(3, 4))
    assert sound
    assert sentences[0].startswith("6 containers started")
    assert "4 of 4" in sentences[2]
    assert "0.75" in sentences[2]
    assert sentences[3].startswith("2 of them")


@pytest.mark.parametrize(("faulty", "broke"), [(("a lost what it had",), ""), ((), "a lost what it had")])
def test_the_verdict_can_fail(faulty: tuple[str, ...], broke: str) -> None:
    """One fault anywhere, or a story that broke off, makes it unsound, and is told in a sentence."""
    fine = Verdict(starts=1, pairs=0, nearest=0, moved=0, faults=())
    bad = Verdict(starts=1, pairs=0, nearest=0, moved=0, faults=faulty)
    sound, sentences = verdict([fine, bad], Fraction(0), broke)
    assert not sound
    assert sentences == ["Not as it should be: a lost what it had.", "Please report this."]
