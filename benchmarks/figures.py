"""Figures: what was measured, the floor beside it, the goal, and the verdict.

It answers for the numbers that are made of samples. It must not measure, and not print.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Literal, assert_never

import msgspec

Measure = Literal["median", "p99", "max", "over the floor", "ratio"]
Verdict = Literal["met", "missed", "missed, by the floor alone", "no goal"]


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """What a number of samples look like."""

    count: int
    minimum: float
    median: float
    p99: float
    maximum: float

    def measured(self, of: Measure) -> float:
        """The number that a goal is about; nothing for one that needs a floor."""
        match of:
            case "median":
                return self.median
            case "p99":
                return self.p99
            case "max":
                return self.maximum
            case "over the floor" | "ratio":
                return math.nan
            case _:
                assert_never(of)


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """At most so much, of one measure of a figure."""

    of: Measure
    most: float


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """What cannot be done without, measured in the same run."""

    what: str
    spread: Spread
    over: float
    """By how much a sample of the figure is above the floor's beside it: the median of all pairs."""
    ratio: float
    """The same as a ratio."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report."""

    group: str
    what: str
    unit: str
    spread: Spread
    floor: Floor | None = None
    goals: tuple[Goal, ...] = ()
    note: str = ""

    def measured(self, of: Measure) -> float:
        """The number that a goal is about."""
        match of:
            case "over the floor":
                return math.nan if self.floor is None else self.floor.over
            case "ratio":
                return math.nan if self.floor is None else self.floor.ratio
            case _:
                return self.spread.measured(of)

    def is_met(self, goal: Goal) -> bool:
        """Whether ``goal`` is kept; one that nothing was measured for is not."""
        return self.measured(goal.of) <= goal.most

    @property
    def verdict(self) -> Verdict:
        """Whether all goals are kept; one that the floor alone misses says more of the machine than of us."""
        if not self.goals:
            return "no goal"
        missed = [goal for goal in self.goals if not self.is_met(goal)]
        if not missed:
            return "met"
        return "missed, by the floor alone" if any(map(self._floor_misses, missed)) else "missed"

    def _floor_misses(self, goal: Goal) -> bool:
        return self.floor is not None and self.floor.spread.measured(goal.of) > goal.most


def spread(samples: Sequence[float]) -> Spread:
    """The spread of ``samples``, of which there must be one at least."""
    return Spread(
        count=len(samples),
        minimum=min(samples),
        median=statistics.median(samples),
        p99=percentile(samples, 99),
        maximum=max(samples),
    )


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that ``percent`` of all are not above: a sample, never something between two."""
    rank = math.ceil(len(samples) * percent / 100)
    return sorted(samples)[max(0, rank - 1)]


def floor(what: str, floors: Sequence[float], samples: Sequence[float]) -> Floor:
    """The floor of ``samples``; both came in pairs, so that a machine that gets slower meets both alike."""
    pairs = list(zip(samples, floors, strict=True))
    return Floor(
        what=what,
        spread=spread(floors),
        over=statistics.median(sample - least for sample, least in pairs),
        ratio=statistics.median(sample / least if least else math.inf for sample, least in pairs),
    )


def abba(pairs: int) -> Iterator[bool]:
    """Which of two is next: A B B A A B B A, so that neither is always the one that comes second."""
    for number in range(pairs):
        yield from (False, True) if number % 2 else (True, False)
