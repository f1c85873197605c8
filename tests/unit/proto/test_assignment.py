import itertools

from hypothesis import given
from hypothesis import strategies as st

from railside_proto.assignment import assign

_COSTS = st.integers(0, 4).flatmap(
    lambda rows: st.integers(max(rows, 1), 6).flatmap(
        lambda columns: st.lists(
            st.lists(st.integers(-5, 5) | st.just(10**9), min_size=columns, max_size=columns),
            min_size=rows,
            max_size=rows,
        )
    )
)


@given(costs=_COSTS)
def test_no_other_assignment_costs_less(costs: list[list[int]]) -> None:
    """Every row gets a column of its own, and trying all ways finds none that is cheaper."""
    columns = assign(costs)
    width = len(costs[0]) if costs else 0
    ways = itertools.permutations(range(width), len(costs))
    assert len(set(columns)) == len(costs)
    assert min(_cost(costs, way) for way in ways) == _cost(costs, columns)


def _cost(costs: list[list[int]], columns: tuple[int, ...] | list[int]) -> int:
    return sum(row[column] for row, column in zip(costs, columns, strict=True))
