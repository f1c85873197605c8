import msgspec
import pytest
from tests.unit.agent.situations import binding, entry, held, situation

from railside_agent.holders import Checkpoint
from railside_agent.situation import Listed, believed
from railside_proto.names import RESOURCE

_LAST_GOOD = Checkpoint(entries=(entry("p", "n0-s0"),))
_TORN = situation(checkpoint=None)


def test_a_checkpoint_that_makes_sense_is_believed() -> None:
    """What was good before does not count beside what is good now."""
    now = situation(entries=(entry("q", "n0-s1"),))
    assert now == believed(now, _LAST_GOOD, (Listed(id="n0-s7", held=True),), RESOURCE)


def test_a_torn_checkpoint_is_the_last_good_one_in_doubt() -> None:
    """While the kubelet's file makes no sense, what it last said holds, and nothing may be concluded from it."""
    expected = msgspec.structs.replace(_TORN, checkpoint=_LAST_GOOD, doubtful=True)
    assert expected == believed(_TORN, _LAST_GOOD, (Listed(id="n0-s0", held=True),), RESOURCE)


def test_in_doubt_whatever_anybody_says_is_held_is_held() -> None:
    """What was bound or listed as held since the last good checkpoint counts, and nothing counts twice."""
    now = msgspec.structs.replace(_TORN, bindings=(binding("p", n0_s0=1), binding("q", n0_s1=2)))
    listed = (Listed(id="n0-s0", held=True), Listed(id="n0-s1", held=True), Listed(id="n0-s7", held=True))
    guess = believed(now, _LAST_GOOD, listed, RESOURCE)
    assert guess.checkpoint is not None
    assert [(one.pod, one.names) for one in guess.checkpoint.of(RESOURCE)] == [
        ("p", ("n0-s0",)),
        ("q", ("n0-s1",)),
        ("", ("n0-s7",)),
    ]


def test_without_any_checkpoint_the_books_tell() -> None:
    """An agent that starts beside a torn file takes for held what is bound and what was listed as held."""
    now = msgspec.structs.replace(_TORN, bindings=(binding("p", n0_s0=1),))
    listed = (
        Listed(id="n1-s0", numa_nodes=(1,), held=True),
        Listed(id="n0-s1", numa_nodes=(0,)),
        Listed(id="mlx5_3", numa_nodes=(1,), held=True),
    )
    guess = believed(now, None, listed, RESOURCE)
    assert guess.checkpoint is not None
    assert (
        guess.doubtful,
        [(one.pod, one.names) for one in guess.checkpoint.of(RESOURCE)],
    ) == (True, [("p", ("n0-s0",)), ("", ("n1-s0",)), ("", ("mlx5_3",))])


@pytest.mark.parametrize(
    ("name", "nodes"), [pytest.param("n1_s0", (1,), id="hinted"), pytest.param("any_s0", (), id="bare")]
)
def test_a_guess_has_the_nodes_of_the_names(name: str, nodes: tuple[int, ...]) -> None:
    """A bound seat is taken for recorded where its name says, so that its hint does not change (law 4)."""
    now = msgspec.structs.replace(_TORN, bindings=(binding("p", **{name: 1}),))
    guess = believed(now, None, (), RESOURCE)
    seat = name.replace("_", "-")
    assert guess.checkpoint is not None
    assert {seat: held(seat, *nodes)} == guess.checkpoint.held(RESOURCE)
