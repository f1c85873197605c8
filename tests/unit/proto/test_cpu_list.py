import pytest

from railside_proto.cpu_list import cpu_count


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("0", 1), ("0-3", 4), ("0-55,112-167", 112), ("0,2,4-5", 4), ("3-1", 0), ("0-", None), ("x", None)],
)
def test_cpus_are_counted(text: str, count: int | None) -> None:
    """Ranges count from end to end; what is no list is none."""
    assert cpu_count(text) == count
