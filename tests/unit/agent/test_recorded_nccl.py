from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from tests.unit.builders import seen, tree
from tests.unit.recorded import expected

from railside_agent.virtual_topology import TopologySource
from railside_proto.machine import Gpu, Hca, LinkLayer, Machine, PathClass, path_class
from railside_proto.pool import Selector

_FILES = (
    "aws-p4d.xml",
    "azure-ncv4.xml",
    "azure-ndv4.xml",
    "azure-ndv5.xml",
    "ibm-h100-vm.xml",
    "rccl-8p_940.xml",
    "rccl-8p_940vm.xml",
    "rccl-8p_rome_4nics.xml",
)
_BOTH = (Selector(), Selector(link_layer=LinkLayer.ETHERNET))
_TOPOLOGY = "var/run/nvidia-topologyd/virtualTopology.xml"


def test_every_recorded_file_has_a_test(recordings: Path) -> None:
    """A file that somebody adds belongs into the list here."""
    assert set(_FILES) == {path.name for path in (recordings / "nccl-xml").glob("*.xml")}


@pytest.fixture(scope="module", params=_FILES)
def file(request: pytest.FixtureRequest) -> str:
    """One of the recorded files."""
    return str(request.param)


@pytest.fixture(scope="module")
def flat(recordings: Path, file: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The machine of a file as a virtual machine shows it, and the file beside it."""
    return _flat(recordings / "nccl-xml" / file, tmp_path_factory.mktemp("flat"))


def test_a_tree_with_the_relations_of_the_file(recordings: Path, tmp_path: Path, file: str) -> None:
    """Sysfs of the same bridges gives each function's NUMA node, and each GPU's nearest HCAs (B-DP-48)."""
    machine = seen(tree(_as_sysfs(recordings / "nccl-xml" / file), tmp_path), *_BOTH)
    _assert_expected(machine, expected(recordings, "nccl-xml", file))


@pytest.mark.parametrize("source", [TopologySource.AUTO, TopologySource.FILE])
def test_a_flat_tree_with_the_file(recordings: Path, flat: Path, file: str, source: TopologySource) -> None:
    """In a virtual machine that hides everything the file itself gives the same places (B-DP-48)."""
    machine = seen(flat, *_BOTH, topology=source)
    _assert_expected(machine, expected(recordings, "nccl-xml", file))
    assert all(one.told_by_file for one in (*machine.hcas, *machine.gpus))


def test_a_flat_tree_whose_file_nobody_believes(flat: Path) -> None:
    """With the setting ``sysfs`` the same machine is as flat as its kernel says, on no NUMA node (B-DP-18)."""
    machine = seen(flat, *_BOTH, topology=TopologySource.SYSFS)
    classes = {path_class(gpu, hca) for gpu in machine.gpus for hca in machine.hcas}
    assert classes <= {PathClass.PHB}
    assert {one.numa_node for one in (*machine.hcas, *machine.gpus)} == {None}


def _assert_expected(machine: Machine, told: dict[str, Any]) -> None:
    assert told["numa_nodes"] == [node.number for node in machine.numa_nodes]
    assert {address: gpu["numa"] for address, gpu in told["gpus"].items()} == {
        gpu.address: gpu.numa_node for gpu in machine.gpus
    }
    assert {address: nic["numa"] for address, nic in told["nics"].items()} == {
        hca.address: hca.numa_node for hca in machine.hcas
    }
    closest = {address: (one["path"], set(one["nics"])) for address, one in told["closest"].items()}
    assert closest == {gpu.address: _closest(gpu, machine.hcas) for gpu in machine.gpus}


def _closest(gpu: Gpu, hcas: tuple[Hca, ...]) -> tuple[str, set[str]]:
    classes = {hca.address: path_class(gpu, hca) for hca in hcas}
    best = min(classes.values(), default=PathClass.SYS)
    return best.name, {address for address, path in classes.items() if path is best}


def _functions(element: ET.Element, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Path and class of each function below an element, the path with the function itself."""
    for pci in element.findall("pci"):
        path = (*above, pci.attrib["busid"])
        if pci.find("pci") is None:
            yield path, pci.attrib["class"]
        else:
            yield from _functions(pci, path)


def _as_sysfs(file: Path) -> str:
    """A machine of text whose host bridges are the file's ``cpu`` elements."""
    lines = []
    for cpu in ET.parse(file).getroot().findall("cpu"):  # noqa: S314 -- recordings are data of our own
        number = int(cpu.attrib["numaid"])
        lines.append(f"numa {number} cpus={4 * number}-{4 * number + 3} distances=10")
        functions = _functions(cpu, (f"pci{number:04x}:00",))
        lines += [_line("/".join(path), pci_class, number) for path, pci_class in functions]
    return "\n".join(lines)


def _flat(file: Path, root: Path) -> Path:
    """The same functions, each below a root port of its own and on no NUMA node, and the file beside them."""
    lines: list[str] = []
    for line in _as_sysfs(file).splitlines():
        words = line.split(" ")
        if words[0] in {"gpu", "hca"}:
            number = len(lines)
            words[1] = f"pci0000:00/0000:00:{number // 8:02x}.{number % 8}/{words[1].rpartition('/')[2]}"
            words[2] = "numa=-1"
        lines.append(" ".join(words))
    topology = tree("\n".join(lines), root) / _TOPOLOGY
    topology.parent.mkdir(parents=True)
    topology.write_bytes(file.read_bytes())
    return root


def _line(path: str, pci_class: str, numa_node: int) -> str:
    if not pci_class.startswith("0x02"):
        nvidia = pci_class.startswith("0x0302")
        vendor = "" if nvidia else "vendor=0x1002 device=0x74a1 driver=amdgpu"
        return f"gpu {path} numa={numa_node} class={pci_class} {vendor}"
    tail = path.rpartition("/")[2].replace(":", "").replace(".", "")
    link = "InfiniBand" if pci_class.startswith("0x0207") else "Ethernet"
    number = int(tail, 16) % 1_000_000
    return (
        f"hca {path} numa={numa_node} name=mlx5_{number} uverbs={number} class={pci_class}"
        f" guid=0000:0000:0000:0001\nport mlx5_{number} 1 link={link} state=ACTIVE"
    )
