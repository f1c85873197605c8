from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.unit.builders import ONE_HCA, TWO_NUMA, seen, tree

from railside_agent.presence import is_called
from railside_proto.machine import DeviceNode
from railside_sim.stand_in_nodes import StandInNodes

_VERBS = "sys/class/infiniband_verbs/uverbs0"
_NODE = "dev/infiniband/uverbs0"


def _other_node(root: Path) -> None:
    (root / _NODE).unlink()
    StandInNodes().make(root / _NODE, DeviceNode(name="uverbs0", major=1, minor=2))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda _: None, True, id="as-it-was"),
        pytest.param(lambda root: (root / _VERBS / "ibdev").write_text("mlx5_9\n"), False, id="another-hca"),
        pytest.param(lambda root: (root / _VERBS / "dev").write_text("231:7\n"), False, id="renumbered"),
        pytest.param(lambda root: (root / _VERBS / "dev").unlink(), False, id="no-numbers"),
        pytest.param(lambda root: (root / _NODE).unlink(), False, id="no-node"),
        pytest.param(_other_node, False, id="stale-node"),
    ],
)
def test_whether_an_hca_is_what_it_was(
    tmp_path: Path, change: Callable[[Path], object], *, expected: bool
) -> None:
    """Name, numbers and node must all be those of the last look (law 9)."""
    root = tree(TWO_NUMA + ONE_HCA, tmp_path)
    (hca,) = seen(root).hcas
    change(root)
    assert expected == is_called(root, StandInNodes(), hca)


def test_an_hca_of_another_name_is_not_there(tmp_path: Path) -> None:
    """A uverbs number that nobody has is no HCA."""
    root = tree(TWO_NUMA + ONE_HCA, tmp_path)
    (hca,) = seen(root).hcas
    gone = msgspec.structs.replace(hca, uverbs=msgspec.structs.replace(hca.uverbs, name="uverbs7"))
    assert not is_called(root, StandInNodes(), gone)
