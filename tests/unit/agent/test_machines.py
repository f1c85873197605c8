"""Our own machines of text, each with the few facts that it is about; every one must be in the table."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from tests.conftest import MACHINES, MakeTree
from tests.unit.builders import hca_names, left_out, seen

from railside_agent.gpu_ids import locate
from railside_proto.machine import LinkLayer, Machine, NetnsMode, PortState, path_class
from railside_proto.pool import Functions, Pool, Selector
from railside_proto.reasons import Code

_ROCE = Selector(link_layer=LinkLayer.ETHERNET)


def _numa_nodes(machine: Machine) -> list[int | None]:
    return [hca.numa_node for hca in machine.hcas]


def _nearest(machine: Machine) -> list[tuple[str, list[str]]]:
    """For each GPU the best class, and the HCAs of that class."""
    found = []
    for gpu in machine.gpus:
        classes = {hca.name: path_class(gpu, hca) for hca in machine.hcas}
        best = min(classes.values())
        found.append((best.name, [name for name, path in classes.items() if path is best]))
    return found


def _one_hca(machine: Machine) -> None:
    assert (hca_names(machine), _numa_nodes(machine), machine.gpus) == (["mlx5_0"], [0], ())


def _twelve(machine: Machine) -> None:
    names = ["mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11"]
    assert _nearest(machine) == [("PXB", [name]) for name in names]
    cards = {hca.name: hca.sys_image_guid for hca in machine.hcas if hca.name not in names}
    assert (len(machine.hcas), len(cards), len(set(cards.values()))) == (12, 4, 2)


def _sixteen(machine: Machine) -> None:
    assert hca_names(machine) == [f"mlx5_{number}" for number in range(16)]
    assert _nearest(machine) == [("PIX", [f"mlx5_{2 * gpu}", f"mlx5_{2 * gpu + 1}"]) for gpu in range(8)]


def _dual_port(machine: Machine) -> None:
    states = {hca.name: [(port.state, port.phys_state, port.sm_lid) for port in hca.ports] for hca in machine.hcas}
    assert states == {
        "mlx4_0": [(PortState.ACTIVE, "LinkUp", 1), (PortState.DOWN, "Polling", 0)],
        "mlx5_0": [(PortState.ACTIVE, "LinkUp", 1)],
        "mlx5_1": [(PortState.INIT, "LinkUp", 0)],
    }
    _, one, other = machine.hcas
    assert one.sys_image_guid == other.sys_image_guid
    assert [len(hca.umads) for hca in machine.hcas] == [2, 1, 1]


def _bond(machine: Machine) -> None:
    assert (hca_names(machine), left_out(machine)) == (["mlx5_0", "mlx5_1"], {"mlx5_bond_0": Code.ETHERNET_LINK})


def _vf_and_pf(machine: Machine) -> None:
    assert hca_names(machine) == ["mlx5_0"]
    assert left_out(machine) == {
        "mlx5_1": Code.VIRTUAL_FUNCTION,
        "mlx5_2": Code.VIRTUAL_FUNCTION,
        "0000:16:00.3": Code.NO_DRIVER,
        "0000:16:00.4": Code.NO_DRIVER,
    }


def _vm_vf_only(machine: Machine) -> None:
    assert (hca_names(machine), _numa_nodes(machine)) == (["mlx5_0", "mlx5_1"], [0, 0])
    assert {hca.parent for hca in machine.hcas} == {None}


def _irregular(machine: Machine) -> None:
    found = {
        hca.name: (hca.uverbs.name, hca.uverbs.major, [node.name for node in hca.umads]) for hca in machine.hcas
    }
    assert found == {
        "mlx5_11": ("uverbs7", 231, ["umad2"]),
        "mlx5_2": ("uverbs40", 511, ["umad9"]),
        "mlx5_40": ("uverbs0", 231, ["umad0"]),
        "mlx5_5": ("uverbs3", 231, ["umad4"]),
    }


def _ethernet_flipped(machine: Machine) -> None:
    assert hca_names(machine) == ["mlx5_0", "mlx5_1", "mlx5_3"]
    assert left_out(machine) == {"mlx5_2": Code.ETHERNET_LINK}


def _no_rdma_cm(machine: Machine) -> None:
    assert (len(machine.hcas), machine.rdma_cm, [hca.umads for hca in machine.hcas]) == (2, None, [(), ()])


def _numa_unknown_one(machine: Machine) -> None:
    assert _numa_nodes(machine) == [0, None]


def _numa_unknown_all(machine: Machine) -> None:
    assert (_numa_nodes(machine), _nearest(machine)) == ([None, None], [("PIX", ["mlx5_0"]), ("PIX", ["mlx5_1"])])
    assert path_class(machine.gpus[0], machine.hcas[1]).name == "SYS"


def _numa_off(machine: Machine) -> None:
    assert _nearest(machine) == [("PIX", [f"mlx5_{number}"]) for number in range(4)]
    classes = [path_class(gpu, hca).name for gpu, hca in product(machine.gpus, machine.hcas)]
    assert (_numa_nodes(machine), classes.count("NODE")) == ([0, 0, 0, 0], 12)


def _renamed(machine: Machine) -> None:
    assert (hca_names(machine), left_out(machine)) == (
        ["ibp22s0", "ibp152s0"],
        {"rocep73s0f0": Code.ETHERNET_LINK},
    )


def _wide_domains(machine: Machine) -> None:
    addresses = ["0000:81:00.0", "10000:02:00.0", "abcd0001:04:00.0"]
    assert [hca.address for hca in machine.hcas] == addresses
    first, second = machine.gpus
    assert [path_class(first, hca).name for hca in machine.hcas] == ["PHB", "PHB", "SYS"]
    assert [path_class(second, hca).name for hca in machine.hcas] == ["SYS", "SYS", "PIX"]


def _four_numa_nodes(machine: Machine) -> None:
    assert [(node.number, node.distances) for node in machine.numa_nodes] == [
        (0, (10, 12, 32, 32)),
        (1, (12, 10, 32, 32)),
        (2, (32, 32, 10, 12)),
        (3, (32, 32, 12, 10)),
    ]
    assert _nearest(machine) == [("PIX", [f"mlx5_{gpu // 2}"]) for gpu in range(8)]


def _vm_virtual_topology(machine: Machine) -> None:
    assert _nearest(machine) == [("PIX", [f"mlx5_{7 - gpu}"]) for gpu in range(8)]
    assert [gpu.numa_node for gpu in machine.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert all(one.told_by_file for one in (*machine.gpus, *machine.hcas))


def _mig(machine: Machine) -> None:
    first, second = machine.gpus
    assert (second.uuid, second.index) == (None, 1)
    part, old_part = locate(["MIG-5c1d0b2e-8d1c-5f0e-9c87-3d2b6e1f4a90", f"MIG-{first.uuid}/1/0"], machine)
    assert (part.gpu, old_part.gpu) == (None, first)


def _amd(machine: Machine) -> None:
    assert {gpu.vendor for gpu in machine.gpus} == {"amd"}
    assert _nearest(machine) == [("PXB", [f"mlx5_{number}"]) for number in range(4)]


def _infiniband_beside_roce(machine: Machine) -> None:
    assert hca_names(machine) == ["mlx5_0", "mlx5_2"]
    assert left_out(machine) == {"mlx5_1": Code.ETHERNET_LINK, "mlx5_3": Code.ETHERNET_LINK}


def _netns_exclusive(machine: Machine) -> None:
    assert (machine.netns_mode, hca_names(machine)) == (NetnsMode.EXCLUSIVE, ["mlx5_0"])
    assert left_out(machine) == {"0000:98:00.0": Code.NO_RDMA_DEVICE}


def _ours(machine: Machine) -> None:
    assert (len(machine.hcas), len(machine.gpus), left_out(machine)) == (8, 8, {"mlx5_bond_0": Code.ETHERNET_LINK})


_ABOUT: dict[str, Callable[[Machine], None]] = {
    "amd": _amd,
    "bond": _bond,
    "dual-port": _dual_port,
    "ecs.hpcpni3.45xlarge": _ours,
    "ethernet-flipped": _ethernet_flipped,
    "four-numa-nodes": _four_numa_nodes,
    "hcas-12": _twelve,
    "hcas-16": _sixteen,
    "infiniband-beside-roce": _infiniband_beside_roce,
    "irregular": _irregular,
    "mig": _mig,
    "netns-exclusive": _netns_exclusive,
    "no-rdma-cm": _no_rdma_cm,
    "numa-off": _numa_off,
    "numa-unknown-all": _numa_unknown_all,
    "numa-unknown-one": _numa_unknown_one,
    "one-hca": _one_hca,
    "renamed": _renamed,
    "vf-and-pf": _vf_and_pf,
    "vm-vf-only": _vm_vf_only,
    "vm-virtual-topology": _vm_virtual_topology,
    "wide-domains": _wide_domains,
}


@pytest.mark.parametrize("path", sorted(MACHINES.glob("*.machine")), ids=lambda path: path.stem)
def test_a_machine_is_what_its_text_says(path: Path, make_tree: MakeTree) -> None:
    """Each machine shows what it is about (B-DP-1, -2, -4, -5, -10, -12, -18, -20, -40, -45, -48)."""
    assert path.read_text(encoding="utf-8").startswith("# ")
    _ABOUT[path.stem](seen(make_tree(path.stem)))


def test_two_pools_share_a_machine(make_tree: MakeTree) -> None:
    """InfiniBand and RoCE HCAs of one machine each belong to their own pool."""
    infiniband = Pool(resource="example.org/ib")
    pools = [infiniband, Pool(resource="example.org/roce", selector=_ROCE, earlier=(infiniband.selector,))]
    machine = seen(make_tree("infiniband-beside-roce"), *(pool.selector for pool in pools))
    found = {hca.name: pool.name for hca in machine.hcas for pool in pools if pool.takes(hca)}
    assert (found, machine.excluded) == ({"mlx5_0": "ib", "mlx5_1": "roce", "mlx5_2": "ib", "mlx5_3": "roce"}, ())


def test_virtual_functions_of_a_machine_can_be_given_away(make_tree: MakeTree) -> None:
    """Where virtual functions are wanted, those with a driver are offered and their card is not (B-DP-20)."""
    machine = seen(make_tree("vf-and-pf"), Selector(functions=Functions.VIRTUAL))
    assert [(hca.name, hca.parent) for hca in machine.hcas] == [
        ("mlx5_1", "0000:16:00.0"),
        ("mlx5_2", "0000:16:00.0"),
    ]
    assert left_out(machine)["mlx5_0"] is Code.PHYSICAL_FUNCTION
