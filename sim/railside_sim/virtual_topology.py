"""virtualTopology.xml of a machine, in the shape a hypervisor's image writes it for NCCL.

It answers for one text: system, cpu, and pci nested as the bridges are, one element for each PCIe switch and
function. It must not be read as what discovery should find; sysfs stands beside it.
"""

from collections.abc import Iterable
from typing import Final
from xml.etree import ElementTree as ET

from railside_proto import names
from railside_sim.cpu_list import mask_of
from railside_sim.parts import FunctionPart, Manifest, NumaPart
from railside_sim.tree_writer import TreeWriter

TOPOLOGY_PATH: Final = f"{names.TOPOLOGY_DIR}/{names.TOPOLOGY_FILE}"
_LINK: Final = {"link_speed": "32.0 GT/s PCIe", "link_width": "16"}


def write_virtual_topology(tree: TreeWriter, manifest: Manifest) -> None:
    """Writes the file if the manifest asks for one."""
    if manifest.topology:
        tree.text(TOPOLOGY_PATH, virtual_topology(manifest))


def virtual_topology(manifest: Manifest) -> str:
    """The XML text; functions of no NUMA node are left out, as NCCL has no place for them."""
    system = ET.Element("system", {"version": "1"})
    for node in manifest.numa:
        cpu = ET.SubElement(system, "cpu", _cpu(node))
        functions = _gpus_and_hcas(manifest)
        for function in (each for each in functions if _numa(each) == node.number):
            _add(cpu, function)
    ET.indent(system)
    return ET.tostring(system, encoding="unicode")


def _numa(function: FunctionPart) -> int:
    return int(function.told[0]) if function.told else function.numa


def _switches(function: FunctionPart) -> tuple[str, ...]:
    """The switches above a function, without the ports that lead from one to the next."""
    return function.told[1:] if function.told else function.path[2:-2]


def _gpus_and_hcas(manifest: Manifest) -> Iterable[FunctionPart]:
    hcas = (hca.function for hca in manifest.hcas if hca.function is not None)
    return (*(gpu.function for gpu in manifest.gpus), *hcas)


def _cpu(node: NumaPart) -> dict[str, str]:
    identity = {"arch": "x86_64", "vendor": "GenuineIntel", "familyid": "6", "modelid": "143"}
    return {"numaid": str(node.number), "affinity": mask_of(node.cpus), **identity}


def _add(cpu: ET.Element, function: FunctionPart) -> None:
    parent = cpu
    for switch in _switches(function):
        found = parent.find(f"pci[@busid='{switch}']")
        parent = ET.SubElement(parent, "pci", _pci(switch, "0x060400")) if found is None else found
    ET.SubElement(parent, "pci", _pci(function.address, function.pci_class))


def _pci(address: str, pci_class: str) -> dict[str, str]:
    return {"busid": address, "class": pci_class, **_LINK}
