"""Hints for one resource, as a pure function (facts: which masks, which width, which are preferred)."""

import pytest

from railside_sim.device import ListedDevice
from railside_sim.hints import Demand, device_hints, has_topology, masks

NODES = (0, 1)


def listed(text: str) -> dict[str, ListedDevice]:
    """``a0 b01 c- d?``: ids and their NUMA nodes; a dash for no TopologyInfo, a question mark for node -1."""
    return {one[0]: ListedDevice(id=one[0], healthy=True, numa=_nodes(one[1:])) for one in text.split()}


def _nodes(text: str) -> frozenset[int] | None:
    if text == "-":
        return None
    return frozenset(-1 if node == "?" else int(node) for node in text)


def hinted(text: str, count: int, free: str, reusable: str = "", nodes: tuple[int, ...] = NODES) -> list[str]:
    """The hints' nodes, with a star for preferred ones."""
    every = listed(text)
    demand = Demand(count=count, available=[every[one] for one in free], reusable=[every[one] for one in reusable])
    return [
        "".join(map(str, sorted(hint.mask or ()))) + "*" * hint.preferred
        for hint in device_hints(every, demand, nodes)
    ]


@pytest.mark.parametrize(
    ("text", "count", "free", "expected"),
    [
        pytest.param("a0 b0 c1 d1", 1, "abcd", ["0*", "1*", "01"], id="one node is enough"),
        pytest.param("a0 b0 c1 d1", 3, "abcd", ["01*"], id="only both"),
        pytest.param("a0 b0 c1 d1", 2, "acd", ["1*", "01"], id="one node is used up"),
        pytest.param("a0 b0 c1 d1", 2, "ac", ["01"], id="width by all ids, so that both is not preferred"),
        pytest.param("a0 b0 c1 d1", 3, "ac", [], id="not enough anywhere"),
        pytest.param("a01 b0", 1, "a", ["0*", "1*", "01"], id="an id of two nodes counts at each"),
        pytest.param("a01 b0", 2, "ab", ["0*", "01"], id="and beside one of a single node"),
        pytest.param("a0 b-", 1, "b", [], id="a bare id beside a hinted one counts nowhere"),
        pytest.param("a? b?", 1, "ab", [], id="node -1 is in no mask"),
        pytest.param("a5 b0", 1, "a", [], id="nor is a node that the kubelet does not know"),
    ],
)
def test_masks_that_can_serve(text: str, count: int, free: str, expected: list[str]) -> None:
    """A mask serves by its free ids, and is preferred if it is as narrow as all listed ids would allow."""
    assert hinted(text, count, free) == expected


@pytest.mark.parametrize(
    ("free", "reusable", "count", "expected"),
    [
        ("b", "a", 1, ["0*", "01"]),
        ("bcd", "a", 2, ["0*", "01"]),
        ("cd", "a", 2, ["01"]),
        ("d", "ac", 2, ["01"]),
    ],
)
def test_ids_to_be_used_again_bind(free: str, reusable: str, count: int, expected: list[str]) -> None:
    """Only masks that cover all ids of the init containers are hints, and those ids count as free."""
    assert hinted("a0 b0 c1 d1", count, free, reusable) == expected


def test_one_id_speaks_for_all() -> None:
    """A resource has an opinion as soon as one of its ids carries a NUMA node."""
    assert has_topology(listed("a- b0"))
    assert not has_topology(listed("a- b-"))
    assert not has_topology({})


def test_masks_come_narrowest_first() -> None:
    """Every set of nodes once: single ones before pairs, the lower before the higher."""
    expected = [{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}]
    assert [set(mask) for mask in masks((0, 1, 2))] == expected
