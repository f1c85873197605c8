from pathlib import Path
from typing import Any

import pytest
from tests.unit.builders import hca_names, left_out, seen
from tests.unit.recorded import expected, unpacked

from railside_agent.sysfs import read_whole_machine
from railside_proto.machine import LinkLayer, PortState
from railside_proto.reasons import Code
from railside_sim.stand_in_nodes import StandInNodes

_H100 = "gpud-h100-9hca-class.tar.gz"
_MIXED = "procfs-hfi1-mlx4-mlx5-class.tar.gz"


def test_every_recorded_tree_has_a_test(recordings: Path) -> None:
    """An archive that somebody adds needs its own test here."""
    tested = {"hwloc-2numa-mlx4.tar.bz2", "hwloc-power9-6gpu-numanodes.tar.bz2", _H100, _MIXED}
    assert tested == {path.name for path in (recordings / "sysfs").glob("*.tar.*")}


def test_mlx4_of_two_numa_nodes(recordings: Path, tmp_path: Path) -> None:
    """An HCA whose PCI class is not InfiniBand's is found; a dangling class entry is skipped (B-DP-11)."""
    archive = "hwloc-2numa-mlx4.tar.bz2"
    root = unpacked(recordings / "sysfs" / archive, tmp_path)
    told = expected(recordings, "sysfs", archive)
    device = told["devices"]["mlx4_0"]
    before = left_out(seen(root))
    # The recording lacks this class folder; the entry that it links to is there.
    verbs = root / "sys/class/infiniband_verbs/uverbs0"
    verbs.parent.mkdir()
    verbs.symlink_to("../../devices/pci0000:80/0000:80:02.2/0000:82:00.0/infiniband_verbs/uverbs0")
    machine = seen(root)
    (hca,) = machine.hcas
    assert (before, left_out(machine)) == ({"mlx4_0": Code.UVERBS_MISSING}, {})
    assert told["numa_nodes"] == [node.number for node in machine.numa_nodes]
    assert (device["pci_bdf"], int(device["pci_numa_node"])) == (hca.address, hca.numa_node)
    assert (hca.name, hca.path, hca.parent) == ("mlx4_0", ("pci0000:80", "0000:80:02.2"), None)
    names = ("node_guid", "sys_image_guid", "hca_type", "fw_ver", "board_id")
    assert [device[name] for name in names] == [
        hca.node_guid,
        hca.sys_image_guid,
        hca.model,
        hca.firmware,
        hca.board,
    ]
    (port,) = hca.ports
    assert (port.state, port.phys_state, port.rate_gbps) == (PortState.ACTIVE, "LinkUp", 56.0)
    assert (port.lid, port.sm_lid) == (0x3A4, 1)


def test_power9_with_six_gpus(recordings: Path, tmp_path: Path) -> None:
    """NUMA nodes that are the memory of GPUs are no places for a pod, and have no part in distances."""
    machine = seen(unpacked(recordings / "sysfs/hwloc-power9-6gpu-numanodes.tar.bz2", tmp_path))
    nodes = [(node.number, node.cpus, node.distances) for node in machine.numa_nodes]
    assert (nodes, machine.hcas) == ([(0, "0-87", (10, 40)), (8, "88-175", (40, 10))], ())


def test_gpus_that_only_their_driver_names(recordings: Path, tmp_path: Path) -> None:
    """The recording has no vendor ids, but the driver lists its GPUs, in domains of their own."""
    root = unpacked(recordings / "sysfs/hwloc-power9-6gpu-numanodes.tar.bz2", tmp_path)
    found = seen(root).gpus
    assert {gpu.vendor for gpu in found} == {"nvidia"}
    assert [gpu.address.partition(":")[0] for gpu in found] == ["0004", "0004", "0006", "0007", "0035", "0035"]


@pytest.mark.parametrize("archive", [_H100, _MIXED])
def test_ports_of_class_folders(recordings: Path, tmp_path: Path, archive: str) -> None:
    """Every file of a port reads as recorded, blank lines and all; each device has the facts that it tells."""
    raw = read_whole_machine(_class_folder(recordings, tmp_path, archive), StandInNodes())
    devices = expected(recordings, "sysfs", archive)["devices"]
    told = {
        (name, number): [port[file] for file in ("link_layer", "state", "phys_state", "rate")]
        for name, device in devices.items()
        for number, port in device["ports"].items()
    }
    read = {
        (device.name, port.name): [port.link_layer, state.state, state.phys_state, state.rate]
        for device in raw.rdma_devices
        for port, state in zip(device.ports, device.port_states or (), strict=True)
    }
    facts = {name: _facts(device) for name, device in devices.items()}
    assert told == read
    assert facts == {one.name: [one.hca_type, one.fw_ver, one.board_id, one.node_guid] for one in raw.rdma_devices}


@pytest.mark.parametrize("archive", [_H100, _MIXED])
def test_without_functions_each_device_has_a_reason(recordings: Path, tmp_path: Path, archive: str) -> None:
    """What hangs below no PCI function is left out, and said."""
    found = seen(_class_folder(recordings, tmp_path, archive))
    devices = expected(recordings, "sysfs", archive)["devices"]
    assert (found.hcas, left_out(found)) == ((), dict.fromkeys(devices, Code.NO_PCI_FUNCTION))


def test_eight_of_the_nine_devices_of_an_h100_node_are_offered(recordings: Path, tmp_path: Path) -> None:
    """The bond of the BlueField speaks Ethernet; the eight ConnectX-7 are the node's HCAs (B-DP-5)."""
    machine = seen(_with_functions(_class_folder(recordings, tmp_path, _H100)))
    devices = expected(recordings, "sysfs", _H100)["devices"]
    assert hca_names(machine) == [name for name in sorted(devices) if "bond" not in name]
    assert left_out(machine) == {"mlx5_bond_0": Code.ETHERNET_LINK}
    assert {(hca.model, hca.ports[0].rate_gbps, hca.ports[0].state) for hca in machine.hcas} == {
        ("MT4129", 400.0, PortState.ACTIVE)
    }


def test_three_vendors_drivers_on_one_node(recordings: Path, tmp_path: Path) -> None:
    """Omni-Path calls itself InfiniBand, and a blank line in a file of the second port does no harm (B-DP-10)."""
    machine = seen(_with_functions(_class_folder(recordings, tmp_path, _MIXED)))
    ports = {hca.name: [(port.number, port.link_layer) for port in hca.ports] for hca in machine.hcas}
    one = [(1, LinkLayer.INFINIBAND)]
    assert ports == {"hfi1_0": one, "mlx4_0": [*one, (2, LinkLayer.INFINIBAND)], "mlx5_0": one}


def _facts(device: dict[str, Any]) -> list[str | None]:
    return [device.get(name) for name in ("hca_type", "fw_ver", "board_id", "node_guid")]


def _class_folder(recordings: Path, tmp_path: Path, archive: str) -> Path:
    """The root of a tree that has class/infiniband alone; one of the two archives starts there."""
    below = "sys/class/infiniband" if archive == _H100 else ""
    root = tmp_path / "root"
    folder = root / below
    folder.parent.mkdir(parents=True, exist_ok=True)
    unpacked(recordings / "sysfs" / archive, tmp_path / "unpacked", strip=bool(below)).rename(folder)
    return root


def _with_functions(root: Path) -> Path:
    """The recording with what it lacks: a function and a device node for each device, in the order of names."""
    bus = root / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    for number, device in enumerate(sorted((root / "sys/class/infiniband").iterdir())):
        address = f"0000:{number + 1:02x}:00.0"
        (root / "sys/devices/pci0000:00" / address).mkdir(parents=True)
        (bus / address).symlink_to(f"../../../devices/pci0000:00/{address}")
        (device / "device").symlink_to(f"../../../devices/pci0000:00/{address}")
        verbs = root / f"sys/class/infiniband_verbs/uverbs{number}"
        verbs.mkdir(parents=True)
        (verbs / "ibdev").write_text(f"{device.name}\n")
        (verbs / "dev").write_text(f"231:{192 + number}\n")
    return root
