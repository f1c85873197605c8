import itertools
import math

import pytest
from benchmarks.figures import Figure, Goal, abba, floor, percentile, spread

_HUNDRED = [float(number) for number in range(1, 101)]


def _figure(samples: list[float], *goals: Goal, floors: list[float] | None = None) -> Figure:
    return Figure(
        group="g",
        what="w",
        unit="ms",
        spread=spread(samples),
        floor=floor("f", floors, samples) if floors else None,
        goals=goals,
    )


@pytest.mark.parametrize(
    ("samples", "percent", "expected"),
    [
        pytest.param(_HUNDRED, 99, 99.0, id="of-a-hundred"),
        pytest.param(_HUNDRED[:50], 99, 50.0, id="of-fewer"),
        pytest.param([3.0, 1.0, 2.0], 50, 2.0, id="unsorted"),
        pytest.param([7.0], 99, 7.0, id="of-one"),
        pytest.param([7.0, 8.0], 0, 7.0, id="least"),
    ],
)
def test_a_percentile_is_a_sample(samples: list[float], percent: float, expected: float) -> None:
    """It is the smallest sample that so many are not above, and nothing between two samples."""
    assert percentile(samples, percent) == expected


def test_a_spread_is_of_all_samples() -> None:
    """Count, least, median, 99th percentile and most."""
    seen = spread([4.0, 1.0, 2.0, 3.0])
    assert (seen.count, seen.minimum, seen.median, seen.p99, seen.maximum) == (4, 1.0, 2.5, 4.0, 4.0)


def test_a_floor_is_compared_pair_by_pair() -> None:
    """A machine that gets slower halfway changes neither difference nor ratio of most pairs."""
    seen = floor("f", [1.0, 1.0, 10.0], [2.0, 2.0, 20.0])
    assert (seen.over, seen.ratio, seen.spread.median) == (1.0, 2.0, 1.0)


def test_a_floor_of_nothing_has_no_ratio() -> None:
    """What is above nothing is infinitely many times as much."""
    assert floor("f", [0.0], [1.0]).ratio == math.inf


def test_pairs_must_be_whole() -> None:
    """A sample without its floor is a mistake of the benchmark."""
    with pytest.raises(ValueError, match="shorter"):
        floor("f", [1.0], [1.0, 2.0])


def test_turns_are_abba() -> None:
    """Each comes first as often as the other."""
    assert list(abba(3)) == [True, False, False, True, True, False]
    assert list(itertools.islice(abba(10), 1)) == [True]


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (Goal(of="median", most=2), True),
        (Goal(of="median", most=1.9), False),
        (Goal(of="max", most=2.9), False),
        (Goal(of="p99", most=3), True),
        (Goal(of="over the floor", most=1), True),
        (Goal(of="over the floor", most=0.9), False),
    ],
)
def test_a_goal_is_about_one_measure(goal: Goal, met: bool) -> None:  # noqa: FBT001 -- an expectation
    """It is kept when that measure is not above it."""
    figure = _figure([1.0, 2.0, 3.0], goal, floors=[0.0, 1.0, 2.0])
    assert (figure.is_met(goal), figure.verdict) == (met, "met" if met else "missed")


def test_one_missed_goal_is_a_miss() -> None:
    """All goals of a figure must be kept; one without goals has no verdict."""
    assert _figure([1.0], Goal(of="median", most=1), Goal(of="max", most=0.5)).verdict == "missed"
    assert _figure([1.0]).verdict == "no goal"


def test_what_was_not_measured_is_missed() -> None:
    """A goal over a floor that nobody measured is not kept."""
    assert _figure([1.0], Goal(of="over the floor", most=100)).verdict == "missed"


def test_a_goal_that_the_floor_alone_misses_is_told_apart() -> None:
    """No program could have met it in that run, so it says little of this one."""
    goal = Goal(of="p99", most=2)
    assert _figure([4.0, 5.0], goal, floors=[1.0, 3.0]).verdict == "missed, by the floor alone"
    assert _figure([4.0, 5.0], goal, floors=[1.0, 2.0]).verdict == "missed"
    assert _figure([1.0, 2.0], goal, floors=[1.0, 3.0]).verdict == "met"
