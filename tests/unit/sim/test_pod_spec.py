"""Sums and order of a pod's containers."""

import pytest

from railside_sim.pod_spec import ContainerSpec, Pod


def container(name: str, count: int, *, restartable: bool = False) -> ContainerSpec:
    return ContainerSpec(name=name, requests={"a/b": count}, restartable=restartable)


@pytest.mark.parametrize(
    ("init", "apps", "expected"),
    [
        pytest.param([], [2, 3], 5, id="containers add up"),
        pytest.param([4], [2, 1], 4, id="an init container ends before"),
        pytest.param([1, 4, 2], [2], 4, id="the greediest init container"),
        pytest.param(["s1"], [2], 3, id="a sidecar stays"),
        pytest.param(["s1", 3], [2], 4, id="an init container beside an earlier sidecar"),
        pytest.param([3, "s1"], [2], 3, id="a sidecar that comes later"),
    ],
)
def test_what_a_pod_needs_at_most(init: list[int | str], apps: list[int], expected: int) -> None:
    """Init containers count alone beside the sidecars before them, all others together."""
    pod = Pod(
        name="p",
        containers=tuple(container(f"app{number}", count) for number, count in enumerate(apps)),
        init_containers=tuple(
            container(f"init{number}", int(str(count).removeprefix("s")), restartable=isinstance(count, str))
            for number, count in enumerate(init)
        ),
    )
    assert pod.total() == {"a/b": expected}


def test_a_pod_that_makes_no_sense() -> None:
    """Two containers of a name, none at all, or a request below 0 are mistakes of the caller."""
    with pytest.raises(ValueError, match="of different names"):
        Pod(name="p", containers=(ContainerSpec(), ContainerSpec()))
    with pytest.raises(ValueError, match="one or more"):
        Pod(name="p", containers=())
    with pytest.raises(ValueError, match="asks for -1 of a/b; allowed is 0 or more"):
        container("c", -1)


def test_a_key_names_the_namespace_only_where_it_must() -> None:
    """Pods of the default namespace are known by their names."""
    pod = Pod(name="p", containers=(ContainerSpec(),))
    assert (pod.key, Pod(name="p", namespace="n", containers=(ContainerSpec(),)).key) == ("p", "n/p")
