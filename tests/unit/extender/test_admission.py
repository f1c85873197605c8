"""What a kubelet does with one pod on a quiet node, where it leaves no doubt and where it does."""

import pytest

from railside_extender.admission import Rule, admissible, widths
from railside_extender.demand import Unit
from railside_extender.room import Group, Room, Supply, mask_of, masks, splits, width
from railside_proto.podspec import Kind
from railside_proto.record import TopologyPolicy

RESTRICTED, SINGLE = Rule(TopologyPolicy.RESTRICTED), Rule(TopologyPolicy.SINGLE_NUMA_NODE)


def room(numa_nodes: int = 2, **supplies: str) -> Room:
    """``gpu="0:4/3 1:4"``: four listed and three free on node 0, four on node 1; ``01:`` is both, ``-:`` none."""
    nodes = tuple(range(numa_nodes))
    return Room(nodes, tuple((name, _supply(spelt, nodes)) for name, spelt in sorted(supplies.items())))


def _supply(spelt: str, nodes: tuple[int, ...]) -> Supply:
    groups = []
    for word in spelt.split():
        hint, _, amounts = word.partition(":")
        listed, _, free = amounts.partition("/")
        named = () if hint == "-" else tuple(map(int, hint))
        groups.append(Group(mask_of(named, nodes), int(listed), int(free or listed)))
    return Supply(tuple(groups))


def units(spelt: str) -> tuple[Unit, ...]:
    """``init gpu=4; gpu=2 hca=2``: containers in order; the first word of one may say that it ends, or stays."""
    return tuple(map(_unit, spelt.split(";")))


def _unit(spelt: str) -> Unit:
    words = spelt.split()
    kind = Kind(words.pop(0)) if words[0] in {"init", "sidecar"} else Kind.MAIN
    pairs = (word.partition("=") for word in words)
    return Unit(tuple(sorted((name, int(count)) for name, _, count in pairs)), kind)


@pytest.mark.parametrize(
    ("rule", "spelt", "admitted"),
    [
        pytest.param(RESTRICTED, "gpu=4 hca=4", True, id="one node"),
        pytest.param(RESTRICTED, "gpu=8 hca=8", True, id="both nodes"),
        pytest.param(RESTRICTED, "gpu=8 hca=1", False, id="widths differ"),
        pytest.param(RESTRICTED, "gpu=8 hca=0", False, id="none is one node wide"),
        pytest.param(SINGLE, "gpu=8 hca=8", False, id="no node has eight"),
        pytest.param(SINGLE, "gpu=4; gpu=4", True, id="a node each (B-SC-26)"),
        pytest.param(SINGLE, "gpu=3; gpu=3; gpu=2", False, id="each alone would fit, all do not (B-SC-26)"),
        pytest.param(SINGLE, "init gpu=4; gpu=4; gpu=4", True, id="what ended is used again"),
        pytest.param(SINGLE, "init gpu=1; gpu=4", True, id="more beside what is used again"),
        pytest.param(SINGLE, "sidecar gpu=4; gpu=4", True, id="a sidecar keeps its own"),
        pytest.param(SINGLE, "sidecar gpu=4; gpu=4; gpu=1", False, id="and counts (B-SC-15)"),
        pytest.param(RESTRICTED, "gpu=6; gpu=2", False, id="six may leave one on each node"),
    ],
)
def test_an_empty_node_of_two_times_four(rule: Rule, spelt: str, *, admitted: bool) -> None:
    """Four GPUs and four HCAs on each of two nodes, all free."""
    assert admissible(room(gpu="0:4 1:4", hca="0:4 1:4"), rule, units(spelt)) == admitted


@pytest.mark.parametrize(
    ("supplies", "rule", "spelt", "admitted"),
    [
        pytest.param({"gpu": "0:4/3 1:4/3"}, RESTRICTED, "gpu=4", False, id="widths count what is held (B-SC-17)"),
        pytest.param({"gpu": "0:3 1:3"}, RESTRICTED, "gpu=4", True, id="and only what is listed"),
        pytest.param({"gpu": "0:4/1 1:4/2"}, SINGLE, "init gpu=1; gpu=2", False, id="pinned to node 0 (B-SC-16)"),
        pytest.param({"gpu": "0:4/2 1:4/2"}, SINGLE, "init gpu=1; gpu=2", True, id="node 0 has two"),
        pytest.param({"gpu": "01:4"}, SINGLE, "gpu=4", True, id="ids of both nodes fit on either"),
        pytest.param({"gpu": "0:2 -:2"}, SINGLE, "gpu=3", False, id="bare ids count nowhere (law 4)"),
        pytest.param({"gpu": "0:2 01:2/0"}, SINGLE, "gpu=2", True, id="node 0 has two of its own"),
        pytest.param({"cpu": "0:8/2 1:8", "gpu": "0:4 1:4/0"}, SINGLE, "cpu=4 gpu=1", False, id="CPUs align, too"),
    ],
)
def test_nodes_that_are_not_empty(supplies: dict[str, str], rule: Rule, spelt: str, *, admitted: bool) -> None:
    """What is listed decides how wide a request is, and what is free whether there is room."""
    assert admissible(room(2, **supplies), rule, units(spelt)) == admitted


def test_one_numa_node_is_no_opinion_for_single_numa_node() -> None:
    """There it deals ids without a hint as readily, and an init container's such ids are lost for what follows."""
    one = room(1, gpu="0:8/7", hca="0:5 -:3")
    assert not admissible(one, SINGLE, units("init hca=4; gpu=2 hca=2"))
    assert admissible(one, RESTRICTED, units("init hca=4; gpu=2 hca=2"))


def test_where_distances_decide_any_mask_of_the_width_may_win() -> None:
    """prefer-closest-numa-nodes may take another pair of nodes than the lowest: both must do."""
    four = room(4, gpu="0:2 1:2 2:2 3:2")
    lowest, closest = RESTRICTED, Rule(TopologyPolicy.RESTRICTED, closest=True)
    assert admissible(four, lowest, units("gpu=4; gpu=4"))
    assert not admissible(four, closest, units("gpu=3; gpu=3; gpu=2"))


def test_policies_that_turn_nobody_away() -> None:
    """best-effort and none admit whatever is asked."""
    for policy in (TopologyPolicy.BEST_EFFORT, TopologyPolicy.NONE):
        assert admissible(room(gpu="0:1"), Rule(policy), units("gpu=4"))


def test_a_pod_of_too_many_courses_is_not_promised_anything() -> None:
    """Where the kubelet can choose in thousands of ways, nobody says that all of them end well."""
    wide = " ".join(f"{node}:8" for node in range(8))
    thrice = units("; ".join(["gpu=17 hca=17"] * 3))
    assert not admissible(room(8, gpu=wide, hca=wide), RESTRICTED, thrice)
    assert admissible(room(8, gpu=wide, hca=wide), RESTRICTED, thrice[:1])


def test_one_record_does_not_hold_up_the_others() -> None:
    """Ids of many overlapping hints can be chosen in millions of ways: nobody goes through them."""
    pairs = " ".join(f"{node}{node + 1}:8" for node in range(7))
    assert not admissible(room(8, gpu=pairs, hca=pairs), RESTRICTED, units("gpu=17 hca=17; gpu=17 hca=17; gpu=1"))


def test_pods_that_end_between_two_steps_may_lure_them_apart() -> None:
    """The kubelet takes back at each step: main goes to node 0 when it has room, away from what init had."""
    now = room(gpu="0:2/0 1:4/3", hca="0:2/0 1:4/3")
    given = ((("gpu", (2, 0)), ("hca", (2, 0))),)
    asked = units("sidecar gpu=2 hca=2; gpu=1 hca=1; gpu=2")
    assert admissible(now, SINGLE, asked) == admissible(now, SINGLE, asked, given) is False
    asked = units("init gpu=1 hca=1; gpu=2 hca=2")
    assert admissible(now, SINGLE, asked)
    assert admissible(now, SINGLE, asked, given)
    given = ((("gpu", (1, 0)), ("hca", (1, 0))),)
    assert not admissible(now, SINGLE, asked, given)


def test_how_masks_widths_and_splits_count() -> None:
    """Fewest nodes first, then the lowest; a request that never fits is as wide as the machine."""
    assert masks((0, 1, 3)) == (0b1, 0b10, 0b1000, 0b11, 0b1001, 0b1010, 0b1011)
    supply = room(gpu="0:4 1:2").of("gpu")
    assert [width(supply, (0, 1), count) for count in (0, 1, 4, 5, 6, 7)] == [1, 1, 1, 2, 2, 2]
    assert splits(3, (2, 2)) == ((1, 2), (2, 1))
    assert splits(5, (2, 2)) == ()
    assert widths(room(gpu="0:4 1:4", hca="0:1 1:1"), units("gpu=4 hca=2")[0]) == {1, 2}
