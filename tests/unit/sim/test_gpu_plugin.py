"""The stand-in GPU plugin's own choice; its sockets are used by all tests of the kubelet."""

import pytest

from railside_sim.gpu_plugin import Asked, together

SWITCHES = {"a": "1", "b": "1", "c": "2", "d": "2", "e": "2"}


@pytest.mark.parametrize(
    ("free", "fixed", "size", "expected"),
    [
        ("abcde", "", 2, "ab"),
        ("abcde", "", 3, "cde"),
        ("acde", "", 1, "a"),
        ("abcde", "", 4, "cdea"),
        ("bcd", "e", 3, "ecd"),
        ("a", "", 1, "a"),
    ],
)
def test_gpus_that_belong_together(free: str, fixed: str, size: int, expected: str) -> None:
    """The group that fits with the least left over goes first, and the fullest where none fits."""
    asked = Asked(call="preferred", ids=tuple(free + fixed), must_include=tuple(fixed), size=size)
    assert "".join(together(SWITCHES)(asked)) == expected
