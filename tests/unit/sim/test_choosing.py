"""The order of choice among ids, without any plugin."""

import pytest

from railside_sim.choosing import Choice, split
from railside_sim.device import ListedDevice


def device(text: str) -> ListedDevice:
    nodes = None if text[1:] == "-" else frozenset(-1 if one == "?" else int(one) for one in text[1:])
    return ListedDevice(id=text[0], healthy=True, numa=nodes)


def test_ids_are_split_by_the_hint() -> None:
    """Ids of the hint's nodes, of others, and of none; node -1 is the kubelet's word for none."""
    found = split([device(one) for one in ["a0", "b01", "c1", "d-", "e?", "f5"]], frozenset({0}))
    assert (set(found.aligned), set(found.unaligned), set(found.anywhere)) == (set("ab"), set("cf"), set("de"))


def test_without_a_hint_nothing_is_aligned() -> None:
    """Policy none, and a resource without topology, leave all ids equal."""
    found = split([device("a0"), device("b1")], None)
    assert (set(found.aligned), set(found.anywhere)) == (set(), set("ab"))


@pytest.mark.parametrize(
    ("size", "reused", "near", "expected"),
    [
        pytest.param(1, "", {0}, "ab", id="a choice among the aligned"),
        pytest.param(2, "", {0}, None, id="exactly the aligned: no question"),
        pytest.param(3, "", {0}, "abcd must ab", id="all, the aligned being sure"),
        pytest.param(4, "", {0, 1}, None, id="all there are: no question"),
        pytest.param(2, "", None, "abcd", id="without a hint, all"),
        pytest.param(4, "", None, "abcd", id="even where all are needed"),
        pytest.param(2, "x", {0}, "abx must x", id="with what is used again"),
    ],
)
def test_when_the_plugin_is_asked(size: int, reused: str, near: set[int] | None, expected: str | None) -> None:
    """GetPreferredAllocation is for more aligned ids than are missing, or for too few of them."""
    affinity = split([device(one) for one in ["a0", "b0", "c1", "d1"]], None if near is None else frozenset(near))
    choice = Choice(size, sorted)
    choice.take(frozenset(reused))
    wish = choice.wish(frozenset("abcd"), affinity)
    told = wish and "".join(sorted(wish.available)) + " must ".join(["", "".join(sorted(wish.must_include))])
    assert (told and told.removesuffix(" must ")) == expected


def test_tiers_are_used_up_in_order() -> None:
    """What the plugin leaves open is filled from the aligned, then the others, then those of no node."""
    affinity = split([device(one) for one in ["a0", "b1", "c-"]], frozenset({0}))
    for order in (sorted, lambda ids: sorted(ids, reverse=True)):
        choice = Choice(2, order)
        choice.fill(affinity)
        assert choice.taken == set("ab")
