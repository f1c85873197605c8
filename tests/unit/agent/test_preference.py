from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import given

from railside_agent.preference import preferred
from railside_agent.seat_names import zone_of

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
