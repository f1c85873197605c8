import pytest

from railside_proto.cpu_list import cpu_count, cpus


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("0", 1), ("0-3", 4), ("0-55,112-167", 112), ("0,2,4-5", 4), ("3-1", 0), ("0-", None), ("x", None)],
)
def test_cpus_are_counted(text: str, count: int | None) -> None:
    """Ranges count from end to end; what is no list is none."""
    assert cpu_count(text) == count


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0-3", {0, 1, 2, 3}),
        ("0-1,8,10-11", {0, 1, 8, 10, 11}),
        ("5", {5}),
        ("", set()),
        ("3-1", set()),
        ("0-", set()),
        ("x", set()),
        ("0-999999", set()),
    ],
)
def test_cpus_are_named(text: str, expected: set[int]) -> None:
    """Ranges name each CPU from end to end; what is no list, or an absurd one, names none."""
    assert cpus(text) == expected
