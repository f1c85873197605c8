"""The assignment problem: give each row a column of its own so that the sum of costs is least.

Kuhn and Munkres' method with potentials, in O(rows² x columns). It must not know what rows and columns are.
"""

from collections.abc import Sequence
from typing import Final

_OUTSIDE: Final = -1

Costs = Sequence[Sequence[int]]


def assign(costs: Costs) -> list[int]:
    """The column of each row, for a matrix with at least as many columns as rows; costs may be negative."""
    matching = _Matching(costs)
    for row in range(len(costs)):
        matching.add(row)
    return matching.columns()


class _Matching:
    """Rows matched so far, at least cost; each further row costs one search for the cheapest way to fit it in."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._width = len(costs[0]) if costs else 0
        self._row_of = [_OUTSIDE] * self._width
        self._row_price = [0] * len(costs)
        self._column_price = [0] * self._width

    def columns(self) -> list[int]:
        column_of = {row: column for column, row in enumerate(self._row_of) if row != _OUTSIDE}
        return [column_of[row] for row in range(len(self._costs))]

    def add(self, row: int) -> None:
        """Match ``row``, moving others along the cheapest path to a column that is free."""
        reached: list[tuple[int, int]] = []
        gap: dict[int, tuple[int, int]] = {}
        here, column = row, _OUTSIDE
        open_columns = set(range(self._width))
        while True:
            for other in open_columns:
                slack = self._costs[here][other] - self._row_price[here] - self._column_price[other]
                if other not in gap or slack < gap[other][0]:
                    gap[other] = (slack, column)
            nearest = min(open_columns, key=lambda one: (gap[one][0], one))
            self._pay(gap[nearest][0], row, reached, gap, open_columns)
            open_columns.discard(nearest)
            reached.append((nearest, gap[nearest][1]))
            column = nearest
            if self._row_of[column] == _OUTSIDE:
                return self._turn(row, column, dict(reached))
            here = self._row_of[column]

    def _pay(
        self,
        amount: int,
        row: int,
        reached: list[tuple[int, int]],
        gap: dict[int, tuple[int, int]],
        open_columns: set[int],
    ) -> None:
        """Raise prices so that the nearest column costs nothing more, and no column less than nothing."""
        self._row_price[row] += amount
        for column, _ in reached:
            self._row_price[self._row_of[column]] += amount
            self._column_price[column] -= amount
        for column in open_columns:
            gap[column] = (gap[column][0] - amount, gap[column][1])

    def _turn(self, row: int, column: int, before: dict[int, int]) -> None:
        """Give each column on the path back to ``row`` the row of the column before it."""
        while (previous := before[column]) != _OUTSIDE:
            self._row_of[column] = self._row_of[previous]
            column = previous
        self._row_of[column] = row
