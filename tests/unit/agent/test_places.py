from pathlib import Path

import pytest
from tests.unit.builders import FUNCTION, INFINIBAND, one_device, seen, tree

from railside_agent.places import numa_nodes
from railside_agent.raw_machine import RawNumaNode
from railside_proto.machine import PathClass, path_class


@pytest.mark.parametrize(
    ("numa", "extra", "expected"),
    [
        pytest.param(1, "", 1, id="known"),
        pytest.param(-1, "", None, id="firmware-names-none"),
        pytest.param(7, "", None, id="node-does-not-exist"),
        pytest.param(2, "numa 2 cpus=''", None, id="node-of-memory-alone"),
        pytest.param(0, f"without sys/devices/{FUNCTION}/numa_node", None, id="file-missing"),
        pytest.param(0, f"file sys/devices/{FUNCTION}/numa_node garbage", None, id="file-garbage"),
    ],
)
def test_numa_nodes_are_those_that_the_machine_has(
    tmp_path: Path, numa: int, extra: str, expected: int | None
) -> None:
    """A NUMA node that is unknown, or that the machine does not have, is None and never a bad hint (B-DP-18)."""
    (hca,) = seen(tree(f"{one_device(INFINIBAND, numa=numa)}\n{extra}", tmp_path)).hcas
    assert expected == hca.numa_node


def test_on_a_machine_of_one_numa_node_everything_is_on_it(tmp_path: Path) -> None:
    """Kernels of one node, and those in virtual machines, often print -1, and yet there is no doubt (B-DP-18)."""
    text = one_device(INFINIBAND, numa=-1).replace("numa 1 cpus=4-7 distances=21,10", "")
    (hca,) = seen(tree(text, tmp_path)).hcas
    assert hca.numa_node == 0


@pytest.mark.parametrize(
    ("distances", "expected"),
    [
        pytest.param(("10 40 80", "40 10 80"), ((10, 40), (40, 10)), id="memory-node-left-out"),
        pytest.param(("10 40", "40 10"), ((), ()), id="one-is-missing"),
        pytest.param(("10 x 80", ""), ((), ()), id="garbage"),
        pytest.param((None, "40 10 80"), ((), (40, 10)), id="file-missing"),
    ],
)
def test_distances_are_those_to_the_nodes_that_are_listed(
    distances: tuple[str | None, str | None], expected: tuple[tuple[int, ...], ...]
) -> None:
    """The kernel tells the distance to nodes of memory too, which are no places for a pod."""
    raw = [
        RawNumaNode(name="node0", cpulist="0-3", distance=distances[0]),
        RawNumaNode(name="node8", cpulist="4-7", distance=distances[1]),
        RawNumaNode(name="node250", cpulist="", distance="80 80 10"),
    ]
    found = numa_nodes(raw)
    assert ([node.number for node in found], tuple(node.distances for node in found)) == ([0, 8], expected)


def test_numa_nodes_are_sorted_by_number() -> None:
    """The file system sorts node10 before node2; a machine does not."""
    raw = [RawNumaNode(name=f"node{number}", cpulist=str(number), distance="10") for number in (0, 10, 2)]
    assert [node.number for node in numa_nodes(raw)] == [0, 2, 10]


def test_a_controller_with_a_host_bridge_of_its_own(tmp_path: Path) -> None:
    """Two devices below the same VMD controller share a host bridge, and no bridge."""
    vmd = "pci0000:80/0000:80:05.5/pci10000:00"
    second = (
        f"hca {vmd}/10000:00:02.0/10000:02:00.0 numa=0 name=mlx5_1 uverbs=1 guid=5c25:7303:00a1:4c11"
        f"\nport mlx5_1 1 {INFINIBAND}"
    )
    text = one_device(INFINIBAND, path=f"{vmd}/10000:00:01.0/10000:01:00.0")
    one, other = seen(tree(f"{text}\n{second}", tmp_path)).hcas
    assert one.path == ("pci0000:80", "0000:80:05.5", "pci10000:00", "10000:00:01.0")
    assert path_class(one, other) is PathClass.PHB
