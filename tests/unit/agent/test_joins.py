import re
from pathlib import Path

import pytest
from tests.conftest import REPOSITORY, MakeTree
from tests.unit.builders import FUNCTION, INFINIBAND, RDMA, TWO_NUMA, hca_names, one_device, seen, tree

from railside_proto.machine import Machine

_SECOND = "pci0000:97/0000:97:01.0/0000:98:00.0"


def _two(first: str, second: str, *more: str) -> str:
    """Two HCAs with these node GUIDs, each on a NUMA node of its own."""
    return "\n".join(
        [
            TWO_NUMA,
            f"hca {FUNCTION} numa=0 name=mlx5_0 uverbs=0 guid={first}",
            f"port mlx5_0 1 {INFINIBAND}",
            f"hca {_SECOND} numa=1 name=mlx5_1 uverbs=1 guid={second}",
            f"port mlx5_1 1 {INFINIBAND}",
            *more,
        ]
    )


def _joined(machine: Machine) -> dict[str, tuple[str, int | None, str]]:
    """Each HCA's function, NUMA node and device node."""
    return {hca.name: (hca.address, hca.numa_node, hca.uverbs.name) for hca in machine.hcas}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(_two("5c25:7303:00a1:4c10", "5c25:7303:00a1:4c20"), id="as-usual"),
        pytest.param(_two("5c25:7303:00a1:4c10", "5c25:7303:00a1:4c10"), id="both-cards-have-one-guid"),
        pytest.param(_two("0000:0000:0000:0000", "0000:0000:0000:0000"), id="no-guid-yet"),
        pytest.param(
            _two(
                "5c25:7303:00a1:4c10",
                "5c25:7303:00a1:4c20",
                # Each interface carries the GUID of the port of the other card.
                f'file sys/devices/{FUNCTION}/net/ib0/address "00:00:10:29:fe:80::5c:25:73:03:00:a1:4c:20\\n"',
                f'file sys/devices/{_SECOND}/net/ib0/address "00:00:10:29:fe:80::5c:25:73:03:00:a1:4c:10\\n"',
                f"link sys/class/net/ib0 ../../devices/{_SECOND}/net/ib0",
            ),
            id="an-interface-with-anothers-guid",
        ),
    ],
)
def test_an_hca_is_joined_by_its_function_alone(text: str, tmp_path: Path) -> None:
    """Neither a GUID nor a network interface says which card is which: sysfs' parent device does (B-DP-6)."""
    assert _joined(seen(tree(text, tmp_path))) == {
        "mlx5_0": ("0000:16:00.0", 0, "uverbs0"),
        "mlx5_1": ("0000:98:00.0", 1, "uverbs1"),
    }


def test_an_hca_whose_guid_is_unreadable_is_an_hca(tmp_path: Path) -> None:
    """A GUID is told where there is one, and nothing depends on it (B-DP-6)."""
    text = one_device(INFINIBAND) + f"\nwithout {RDMA}/node_guid"
    assert hca_names(seen(tree(text, tmp_path))) == ["mlx5_0"]


def test_no_list_of_names_is_needed_for_devices(make_tree: MakeTree) -> None:
    """A machine without pci.ids, as the image is, shows every device; no module asks for it (B-DP-13)."""
    root = make_tree("ecs.hpcpni3.45xlarge")
    assert not any("pci.ids" in path.name for path in root.rglob("*"))
    machine = seen(root)
    assert (len(machine.hcas), len(machine.gpus)) == (8, 8)
    product = (path for top in ("agent", "proto", "cli") for path in (REPOSITORY / top).rglob("*.py"))
    assert [path.name for path in product if re.search(r"pci\.ids|hwdata|misc/pci", path.read_text())] == []
