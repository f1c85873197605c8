import itertools

import pytest

from railside_agent.seat_names import is_ours, node_of, order, unused, zone_of, zone_of_node


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        pytest.param("n0-s0", "n0", id="first-of-node-0"),
        pytest.param("n17-s203", "n17", id="many"),
        pytest.param("any-s4", "any", id="anywhere"),
    ],
)
def test_a_seat_is_known_by_its_name(name: str, zone: str) -> None:
    """A seat's name tells its zone, and nothing else."""
    assert (True, zone) == (is_ours(name), zone_of(name))


@pytest.mark.parametrize(
    "name", ["", "mlx5_0", "n0", "n-s0", "n0-s", "n0-s0-0", " n0-s0", "n0-s0\n", "N0-s0", "n0-s1234567", "all-s0"]
)
def test_what_is_no_seats_name(name: str) -> None:
    """Any other id was dealt by somebody else, and may be anywhere."""
    assert (is_ours(name), zone_of(name)) == (False, "any")


@pytest.mark.parametrize(("numa_node", "zone"), [(0, "n0"), (3, "n3"), (None, "any")])
def test_a_numa_node_and_its_zone(numa_node: int | None, zone: str) -> None:
    """Node 0 is a node; no node is anywhere."""
    assert (zone, () if numa_node is None else (numa_node,)) == (zone_of_node(numa_node), node_of(zone))


def test_seats_are_sorted_as_people_count() -> None:
    """The tenth seat stands behind the second, and other plugins' ids behind all."""
    names = ["mlx5_0", "n0-s10", "any-s0", "n0-s2", "n1-s0", "a"]
    assert sorted(names, key=order) == ["any-s0", "n0-s2", "n0-s10", "n1-s0", "a", "mlx5_0"]


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        pytest.param((), ["n0-s0", "n0-s1"], id="none-taken"),
        pytest.param(("n0-s0", "n0-s2"), ["n0-s1", "n0-s3"], id="a-gap"),
        pytest.param(("n1-s0", "any-s0"), ["n0-s0", "n0-s1"], id="other-zones"),
    ],
)
def test_the_next_name_is_the_lowest(taken: tuple[str, ...], expected: list[str]) -> None:
    """Names stay short: gaps are filled first."""
    assert expected == list(itertools.islice(unused("n0", taken), len(expected)))


class _Counted(frozenset[str]):
    """Counts how often it is asked for a name."""

    questions = 0

    def __contains__(self, name: object) -> bool:
        self.questions += 1
        return super().__contains__(name)


def test_a_thousand_names_are_one_walk() -> None:
    """Each number is tried once, however many names are wanted, and none beyond the last."""
    taken = _Counted({"n0-s3"})
    names = list(itertools.islice(unused("n0", taken), 1024))
    assert (len(set(names)), names[-1], taken.questions) == (1024, "n0-s1024", 1025)
