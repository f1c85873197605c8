from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.unit.agent.situations import entry, listed, placed, situation
from tests.unit.builders import port

from railside_agent.holders import Checkpoint
from railside_agent.preference import Asking, asking_after, lacks_of, preferred
from railside_agent.seat_names import zone_of
from railside_proto.machine import PortState
from railside_proto.names import RESOURCE
from railside_proto.reasons import Code, reason

_ZONES = ("n0", "n1", "n2")


def _names(**counts: int) -> list[str]:
    return [f"{zone}-s{number}" for zone, count in counts.items() for number in range(count)]


@pytest.mark.parametrize(
    ("available", "must", "size", "expected"),
    [
        pytest.param(_names(n0=4, n1=4), [], 1, ["n0-s0"], id="one"),
        pytest.param(_names(n0=4, n1=2), [], 2, ["n1-s0", "n1-s1"], id="the-zone-that-just-fits"),
        pytest.param(_names(n0=4, n1=2), [], 3, ["n0-s0", "n0-s1", "n0-s2"], id="the-zone-that-holds-all"),
        pytest.param(_names(n0=3, n1=4), [], 6, [*_names(n1=4), "n0-s0", "n0-s1"], id="the-largest-first"),
        pytest.param(_names(n0=2, n1=4), ["n1-s3"], 2, ["n1-s3", "n1-s0"], id="beside-what-must-be"),
        pytest.param(_names(n0=4), ["n0-s2"], 1, ["n0-s2"], id="just-what-must-be"),
        pytest.param(["mlx5_3", "any-s1"], [], 2, ["any-s1", "mlx5_3"], id="ids-of-another-plugin"),
        pytest.param(_names(n0=1), [], 3, ["n0-s0"], id="fewer-than-asked"),
        pytest.param([], [], 2, [], id="none"),
        pytest.param(["n0-s10", "n0-s2"], [], 1, ["n0-s2"], id="lowest-number-first"),
    ],
)
def test_which_seats_are_preferred(available: list[str], must: list[str], size: int, expected: list[str]) -> None:
    """Seats come from few zones, and whole zones are left for wide pods."""
    assert expected == list(preferred(available, must, size))


@st.composite
def _requests(draw: st.DrawFn) -> tuple[list[str], list[str], int]:
    counts = draw(st.fixed_dictionaries(dict.fromkeys(_ZONES, st.integers(0, 5))))
    available = draw(st.permutations(_names(**counts)))
    must = draw(st.lists(st.sampled_from(available), unique=True, max_size=3)) if available else []
    return list(available), must, draw(st.integers(len(must), max(len(must), len(available))))


def _fewest_zones(available: list[str], must: list[str], size: int) -> int:
    """Zones that any answer touches: those of ``must``, and the largest others until it suffices."""
    free = Counter(map(zone_of, available))
    begun = {zone_of(one) for one in must}
    room = sum(free.pop(zone) for zone in begun)
    others = sorted(free.values(), reverse=True)
    return len(begun) + next(count for count in range(len(others) + 1) if room + sum(others[:count]) >= size)


@given(_requests())
def test_every_request_that_can_be_met_is_met(request: tuple[list[str], list[str], int]) -> None:
    """The answer has the asked size, all that must be in it, nothing twice, and touches the fewest zones."""
    available, must, size = request
    chosen = preferred(available, must, size)
    assert len(set(chosen)) == size == len(chosen)
    assert set(must) <= set(chosen) <= set(available)
    assert len({zone_of(one) for one in chosen}) == _fewest_zones(available, must, size) if size else not chosen


_KNOWN = frozenset(("n0-s0", "n0-s1", "n0-s2", "n1-s0"))


def _checkpoint(*held_ids: str, registered: frozenset[str] = _KNOWN) -> Checkpoint:
    entries = (entry("p", *held_ids),) if held_ids else ()
    return Checkpoint(entries=entries, registered={RESOURCE: registered})


@pytest.mark.parametrize(
    ("dealt", "checkpoint", "coming", "expected"),
    [
        pytest.param(["n0-s0"], _checkpoint(), [], "never", id="others-of-the-node-are-free"),
        pytest.param(["n0-s0", "n0-s2"], _checkpoint(), [], "never", id="one-is-left"),
        pytest.param(["n1-s0"], _checkpoint(), [], "unknown", id="the-only-one-of-its-node"),
        pytest.param(["n0-s0", "n0-s1", "n0-s2"], _checkpoint(), [], "unknown", id="the-whole-node"),
        pytest.param(["n0-s0"], _checkpoint("n0-s1", "n0-s2"), [], "unknown", id="the-others-are-held"),
        pytest.param(["n0-s0"], _checkpoint("n0-s1"), ["n0-s2"], "unknown", id="the-others-are-on-their-way"),
        pytest.param(["n0-s0"], _checkpoint("n0-s0"), [], "unknown", id="a-container-that-has-it-already"),
        pytest.param(["n0-s0"], _checkpoint(), ["n0-s0"], "unknown", id="the-same-pods-next-container"),
        pytest.param(
            ["n0-s0"],
            _checkpoint(registered=frozenset({"n0-s0"})),
            [],
            "unknown",
            id="the-others-are-not-acknowledged",
        ),
        pytest.param(["n0-s0"], None, [], "unknown", id="nobody-knows-what-is-free"),
    ],
)
def test_a_kubelet_that_never_asks(
    dealt: list[str], checkpoint: Checkpoint | None, coming: list[str], expected: Asking
) -> None:
    """It is known by a deal where it should have asked, and by no other."""
    now = listed(situation(placed(1), placed(2), placed(3), placed(4, 1)))
    assert expected == asking_after("unknown", dealt, now, checkpoint, resource=RESOURCE, coming=coming)


def test_an_hca_that_is_ill_leaves_no_choice() -> None:
    """Seats that are listed Unhealthy are none that the kubelet could have dealt, whatever it acknowledged."""
    ill = placed(2, ports=(port(PortState.DOWN),))
    now = listed(situation(placed(1), ill))
    assert asking_after("unknown", ["n0-s0"], now, _checkpoint(), resource=RESOURCE, coming=()) == "unknown"


@pytest.mark.parametrize("before", ["asks", "never"])
def test_what_is_known_of_a_kubelet_stays(before: Asking) -> None:
    """No deal makes a kubelet that has asked one that never does."""
    now = listed(situation(placed(1), placed(2)))
    assert before == asking_after(before, ["n0-s0"], now, _checkpoint(), resource=RESOURCE, coming=())


def test_only_one_that_never_asks_lacks_something() -> None:
    """Nothing is said of a kubelet that asks, or that had no occasion yet."""
    assert [lacks_of("unknown"), lacks_of("asks")] == [(), ()]
    assert lacks_of("never") == (reason(Code.PREFERENCE_NOT_ASKED),)
