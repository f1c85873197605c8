import pytest

from railside_agent.seat_names import first_free, is_ours, node_of, order, zone_of, zone_of_node


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
        pytest.param((), "n0-s0", id="none-taken"),
        pytest.param(("n0-s0", "n0-s2"), "n0-s1", id="a-gap"),
        pytest.param(("n1-s0", "any-s0"), "n0-s0", id="other-zones"),
    ],
)
def test_the_next_name_is_the_lowest(taken: tuple[str, ...], expected: str) -> None:
    """Names stay short: a gap is filled first."""
    assert expected == first_free("n0", taken)
