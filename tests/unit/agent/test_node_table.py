from pathlib import Path

import pytest
from tests.unit.builders import INFINIBAND, ONE_HCA, TWO_NUMA, left_out, one_device, seen, tree

from railside_proto.machine import DeviceNode
from railside_proto.reasons import Code
from railside_sim.stand_in_nodes import StandInNodes


def test_the_connection_manager_is_optional_and_seen_once_it_appears(tmp_path: Path) -> None:
    """Without rdma_cm an HCA is offered, and the node is seen as soon as its module is loaded (B-DP-1)."""
    root = tree(one_device(INFINIBAND), tmp_path)
    before = seen(root).rdma_cm
    rdma_cm = DeviceNode(name="rdma_cm", major=10, minor=58)
    StandInNodes().make(root / "dev/infiniband/rdma_cm", rdma_cm)
    (root / "sys/class/misc/rdma_cm").mkdir(parents=True)
    (root / "sys/class/misc/rdma_cm/dev").write_text("10:58\n")
    assert (None, rdma_cm) == (before, seen(root).rdma_cm)


def test_a_stale_connection_manager_is_left_out(tmp_path: Path) -> None:
    """A node called rdma_cm with other numbers than the kernel's is some other device, and goes to nobody."""
    root = tree(TWO_NUMA + ONE_HCA, tmp_path)
    (root / "sys/class/misc/rdma_cm/dev").write_text("10:59\n")
    assert seen(root).rdma_cm is None


def test_hcas_and_their_nodes_are_joined_by_name_and_not_by_number(tmp_path: Path) -> None:
    """Uverbs numbers that run against the HCAs' are joined by what ``ibdev`` says."""
    text = TWO_NUMA + "".join(
        f"\nhca pci0000:{bus}/0000:{bus}:01.0/0000:{bus + 1}:00.0 numa=0 name=mlx5_{number} uverbs={3 - number}"
        f" guid=5c25:7303:00a1:000{number}\nport mlx5_{number} 1 {INFINIBAND}"
        for number, bus in enumerate((20, 30, 40, 50))
    )
    found = {hca.name: hca.uverbs.name for hca in seen(tree(text, tmp_path)).hcas}
    assert found == {"mlx5_0": "uverbs3", "mlx5_1": "uverbs2", "mlx5_2": "uverbs1", "mlx5_3": "uverbs0"}


def test_two_hcas_that_show_one_number_are_both_left_out(tmp_path: Path) -> None:
    """In the middle of a renumbering nobody can tell whose node it is, and nobody gets it (law 9)."""
    text = TWO_NUMA + "".join(
        f"\nhca pci0000:{bus}/0000:{bus}:01.0/0000:{bus + 1}:00.0 numa=0 name=mlx5_{number} uverbs={number}"
        f" guid=5c25:7303:00a1:000{number}\nport mlx5_{number} 1 {INFINIBAND}"
        for number, bus in enumerate((20, 30, 40))
    )
    root = tree(text, tmp_path)
    numbers = (root / "sys/class/infiniband_verbs/uverbs0/dev").read_text()
    (root / "sys/class/infiniband_verbs/uverbs1/dev").write_text(numbers)
    found = seen(root)
    assert [hca.name for hca in found.hcas] == ["mlx5_2"]
    assert left_out(found) == dict.fromkeys(("mlx5_0", "mlx5_1"), Code.UVERBS_NUMBERS_SHARED)


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        pytest.param("", ["umad0"], id="sound"),
        pytest.param("without dev/infiniband/umad0", [], id="no-node"),
        pytest.param('file dev/infiniband/umad0 "c 231:5 0600 0 0\\n"', [], id="stale-node"),
        pytest.param("without sys/class/infiniband_mad", [], id="ib_umad-not-loaded"),
    ],
)
def test_management_nodes_are_optional(tmp_path: Path, extra: str, expected: list[str]) -> None:
    """An HCA has the umad nodes that are sound, and never an issm; without any it is complete (B-DP-2)."""
    (hca,) = seen(tree(f"{TWO_NUMA}{ONE_HCA}{extra}", tmp_path)).hcas
    assert expected == [node.name for node in hca.umads]
