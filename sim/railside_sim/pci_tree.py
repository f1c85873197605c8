"""/sys/devices/pciDDDD:BB and /sys/bus/pci of a machine: functions, the bridges above them, their links.

It answers for what the PCI core shows. It must not know what a function does.
"""

from itertools import pairwise
from typing import Final

from railside_sim.cpu_list import joined, mask_of
from railside_sim.parts import FunctionPart, Manifest
from railside_sim.tree_writer import TreeWriter

_ROOT_PORT: Final = ("0x8086", "0x352a")
_SWITCH: Final = ("0x1000", "0xc030")
_VMD: Final = ("0x8086", "0x28c0")
_RAID_CLASS: Final = "0x010400"
_HOST_BRIDGE: Final = "pci"
_BRIDGE_CLASS: Final = "0x060400"
_BRIDGE_DEPTH: Final = 2
"""Path length of a root port: the host bridge and itself."""


def write_pci(tree: TreeWriter, manifest: Manifest) -> None:
    """Writes every function of the manifest and each bridge above one, with its links on the bus."""
    cpus = {node.number: node.cpus for node in manifest.numa}
    everywhere = joined(cpus.values())
    for function in manifest.functions:
        for each in (*_bridges(function), function):
            _write_function(tree, each, cpus.get(each.numa, everywhere))
    for function in manifest.functions:
        if function.physfn:
            _write_virtual_function(tree, function, manifest)


def sysfs_folder(function: FunctionPart) -> str:
    """The function's folder below the root."""
    return "/".join(("sys/devices", *function.path))


def _bridges(function: FunctionPart) -> tuple[FunctionPart, ...]:
    """Everything above a function that is a function itself: a host bridge is none, wherever it stands."""
    paths = [function.path[:length] for length in range(_BRIDGE_DEPTH, len(function.path) + 1)]
    return tuple(
        _bridge(path, function.numa, controls=below[-1].startswith(_HOST_BRIDGE))
        for path, below in pairwise(paths)
        if not path[-1].startswith(_HOST_BRIDGE)
    )


def _bridge(path: tuple[str, ...], numa: int, *, controls: bool) -> FunctionPart:
    """A bridge of ``path``, or the controller (VMD) that has a host bridge of its own below it."""
    vendor, device = _VMD if controls else _ROOT_PORT if len(path) == _BRIDGE_DEPTH else _SWITCH
    return FunctionPart(
        path=path,
        numa=numa,
        vendor=vendor,
        device=device,
        pci_class=_RAID_CLASS if controls else _BRIDGE_CLASS,
        driver="vmd" if controls else "pcieport",
    )


def _write_function(tree: TreeWriter, function: FunctionPart, cpus: str) -> None:
    folder = sysfs_folder(function)
    contents: dict[str, str | int] = {
        "vendor": function.vendor,
        "device": function.device,
        "class": function.pci_class,
        "numa_node": function.numa,
        "local_cpulist": cpus or "\n",
        "local_cpus": mask_of(cpus),
        "modalias": _modalias(function),
        "uevent": _uevent(function),
    }
    tree.texts(folder, contents)
    tree.folder("sys/bus/pci/devices")
    tree.link(f"{folder}/subsystem", "sys/bus/pci")
    tree.link(f"sys/bus/pci/devices/{function.address}", folder)
    if function.driver:
        _bind(tree, function)


def _bind(tree: TreeWriter, function: FunctionPart) -> None:
    driver = f"sys/bus/pci/drivers/{function.driver}"
    tree.folder(driver)
    tree.link(f"{sysfs_folder(function)}/driver", driver)
    tree.link(f"{driver}/{function.address}", sysfs_folder(function))


def _modalias(function: FunctionPart) -> str:
    vendor, device = (f"{int(each, 16):08X}" for each in (function.vendor, function.device))
    base, sub, interface = (function.pci_class[at : at + 2].upper() for at in (2, 4, 6))
    return f"pci:v{vendor}d{device}sv{vendor}sd{device}bc{base}sc{sub}i{interface}"


def _uevent(function: FunctionPart) -> str:
    ids = ":".join(each.removeprefix("0x").upper() for each in (function.vendor, function.device))
    driver = f"DRIVER={function.driver}\n" if function.driver else ""
    pci_class = function.pci_class.removeprefix("0x").lstrip("0").upper()
    return (
        f"{driver}PCI_CLASS={pci_class}\nPCI_ID={ids}\nPCI_SUBSYS_ID={ids}\n"
        f"PCI_SLOT_NAME={function.address}\nMODALIAS={_modalias(function)}\n"
    )


def _write_virtual_function(tree: TreeWriter, function: FunctionPart, manifest: Manifest) -> None:
    siblings = [each.address for each in manifest.functions if each.physfn == function.physfn]
    owners = [each for each in manifest.functions if each.address == function.physfn]
    for owner in owners:
        folder = sysfs_folder(owner)
        tree.texts(folder, {"sriov_totalvfs": max(16, len(siblings)), "sriov_numvfs": len(siblings)})
        tree.link(f"{folder}/virtfn{siblings.index(function.address)}", sysfs_folder(function))
        tree.link(f"{sysfs_folder(function)}/physfn", folder)
