import pytest

from railside_proto.resource_patterns import matching


@pytest.mark.parametrize(
    ("resource", "expected"),
    [("nvidia.com/gpu", True), ("nvidia.com/mig-1g.5gb", True), ("nvidia.com/gpu.shared", False), ("x", False)],
)
def test_patterns_of_resources(resource: str, expected: object) -> None:
    """A star stands for the rest of a name, and nothing else matches by chance."""
    assert expected == matching(resource, ("nvidia.com/gpu", "nvidia.com/mig-*"))
