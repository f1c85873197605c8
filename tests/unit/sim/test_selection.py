"""The kubelet's choice of ids under best-effort, as a pure function."""

import random

from railside_sim.selection import ListedDevice, by_affinity, first_of


def listed(**numa: int | None) -> tuple[ListedDevice, ...]:
    return tuple(
        ListedDevice(id=name, healthy=True, numa=None if node is None else frozenset({node}))
        for name, node in numa.items()
    )


def test_the_lowest_node_that_can_serve_alone() -> None:
    """One node before two, the lower before the higher."""
    devices = listed(a=0, b=1, c=1)
    assert by_affinity(devices, 1, (0, 1)).aligned == {"a"}
    assert by_affinity(devices, 2, (0, 1)).aligned == {"b", "c"}
    assert by_affinity(devices, 3, (0, 1)).aligned == {"a", "b", "c"}


def test_without_topology_nothing_is_aligned() -> None:
    """Ids without TopologyInfo are all equal, and no hint narrows the choice."""
    affinity = by_affinity(listed(a=None, b=None), 1, (0, 1))
    assert (set(affinity.aligned), set(affinity.others)) == (set(), {"a", "b"})


def test_a_bare_id_beside_hinted_ones_waits() -> None:
    """While hinted ids suffice, a bare id is not among the aligned."""
    assert by_affinity(listed(a=0, b=None), 1, (0, 1)).aligned == {"a"}


def test_tiers_are_used_up_in_order() -> None:
    """An earlier tier is dealt before a later one, and the same seed deals the same ids."""
    tiers = (frozenset("c"), frozenset("abcd"))
    dealt = [first_of(tiers, 2, random.Random(7)) for _ in range(2)]  # noqa: S311 - a repeatable choice
    assert dealt[0] == dealt[1]
    assert "c" in dealt[0]
