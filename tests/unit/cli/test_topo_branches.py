import pytest
from tests.unit.builders import gpu, hca

from railside_cli.topo.branches import Branch, branches
from railside_proto.machine import Gpu, Hca, PathClass, path_class

_PORT = ("pci0000:05", "0000:05:01.1")
_SWITCH = (*_PORT, "0000:06:00.0")
_LOWER = (*_SWITCH, "0000:07:00.0", "0000:08:00.0")

Shape = tuple[str, list[str], list["Shape"]]


def _shape(branch: Branch) -> Shape:
    names = [one.name if isinstance(one, Hca) else "gpu" for one in branch.functions]
    return branch.label, names, list(map(_shape, branch.branches))


@pytest.mark.parametrize(
    ("functions", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(
            [hca(1, path=(*_SWITCH, "0000:07:01.0")), gpu(9, (*_SWITCH, "0000:07:00.0"))],
            [("switch 0000:06:00.0", ["gpu", "mlx5_1"], [])],
            id="one-switch",
        ),
        pytest.param(
            [hca(1, path=(*_SWITCH, "0000:07:01.0")), gpu(9, _LOWER)],
            [("switch 0000:06:00.0", ["mlx5_1"], [("switch 0000:07:00.0", ["gpu"], [])])],
            id="one-below-the-others",
        ),
        pytest.param(
            [
                hca(1, path=(*_LOWER[:-1], "0000:08:01.0", "0000:0b:00.0", "0000:0c:00.0")),
                gpu(9, (*_LOWER, "0000:09:00.0", "0000:0a:00.0")),
            ],
            [
                (
                    "switch 0000:07:00.0",
                    [],
                    [("switch 0000:09:00.0", ["gpu"], []), ("switch 0000:0b:00.0", ["mlx5_1"], [])],
                )
            ],
            id="both-below-one",
        ),
        pytest.param(
            [hca(1, path=_PORT), gpu(9, (*_SWITCH, "0000:07:00.0"))],
            [("root port 0000:05:01.1", ["mlx5_1"], [("switch 0000:06:00.0", ["gpu"], [])])],
            id="one-root-port",
        ),
        pytest.param(
            [hca(1, path=_PORT), hca(2, path=("pci0000:05", "0000:05:02.0"))],
            [("root port 0000:05:01.1", ["mlx5_1"], []), ("root port 0000:05:02.0", ["mlx5_2"], [])],
            id="one-host-bridge",
        ),
        pytest.param(
            [hca(1, path=("pci0000:05",)), hca(2, path=_PORT)],
            [("pci0000:05", ["mlx5_1"], []), ("root port 0000:05:01.1", ["mlx5_2"], [])],
            id="below-the-host-bridge",
        ),
        pytest.param(
            [
                hca(1, path=("pci0000:80", "0000:80:05.5", "pci10000:00", "10000:00:01.0")),
                hca(2, path=("pci0000:80", "0000:80:05.5", "pci10000:00", "10000:00:02.0")),
            ],
            [("root port 10000:00:01.0", ["mlx5_1"], []), ("root port 10000:00:02.0", ["mlx5_2"], [])],
            id="below-a-vmd",
        ),
        pytest.param(
            [
                hca(1, path=("cpu0", "ff:01.0", "ff:02.0"), told_by_file=True),
                hca(2, path=("cpu0", "ff:01.0"), told_by_file=True),
            ],
            [
                (
                    "switch ff:01.0 of virtualTopology.xml",
                    ["mlx5_2"],
                    [("switch ff:02.0 of virtualTopology.xml", ["mlx5_1"], [])],
                )
            ],
            id="told-by-file",
        ),
        pytest.param(
            [hca(1, path=()), hca(2, path=())], [("place unknown", ["mlx5_1", "mlx5_2"], [])], id="unknown"
        ),
    ],
)
def test_functions_that_are_near_meet_in_one_branch(functions: list[Hca | Gpu], expected: list[Shape]) -> None:
    """What is PXB or nearer shares a branch, and a branch that brings nothing together is not there."""
    assert list(map(_shape, branches(functions))) == expected
    if len(functions) == 2 and functions[0].path:
        assert (len(expected) == 1) == (path_class(*functions) <= PathClass.PXB)
