"""The RDMA side of sysfs: infiniband, infiniband_verbs, infiniband_mad and rdma_cm, with their class links.

It answers for the files of these subsystems. It must not make device nodes, nor say which device is sound.
"""

from collections.abc import Mapping
from typing import Final

from railside_proto.machine import DeviceNode
from railside_sim.device_numbers import mad_names
from railside_sim.parts import HcaPart, Manifest, PortPart
from railside_sim.pci_tree import sysfs_folder
from railside_sim.port_files import port_files
from railside_sim.tree_writer import TreeWriter

_NETNS_MODE: Final = "sys/module/ib_core/parameters/netns_mode"
_UVERBS_ABI: Final = 6
_DEVICE_ABI: Final = 1
_MAD_ABI: Final = 5

Nodes = Mapping[str, DeviceNode]


def write_rdma(tree: TreeWriter, manifest: Manifest, nodes: Nodes) -> None:
    """Writes every RDMA device, with the numbers of ``nodes``. Without devices there is no class."""
    for hca in manifest.hcas:
        _write_device(tree, hca)
        _write_uverbs(tree, hca, nodes)
        for port in hca.ports:
            _write_mad(tree, hca, port, nodes)
    if manifest.hcas:
        tree.text(_NETNS_MODE, "N" if manifest.netns_exclusive else "Y")
    if "rdma_cm" in nodes:
        _write_character(tree, "sys/devices/virtual", "misc", nodes["rdma_cm"])


def _folder(hca: HcaPart) -> str:
    return "sys/devices/virtual" if hca.function is None else sysfs_folder(hca.function)


def _write_device(tree: TreeWriter, hca: HcaPart) -> None:
    folder = _enter(tree, _folder(hca), "infiniband", hca.name)
    _link_device(tree, hca, folder)
    contents: dict[str, str | int] = {
        "node_type": "1: CA",
        "node_guid": hca.guid,
        "sys_image_guid": hca.sys_image_guid,
        "node_desc": f"node {hca.name}",
        "uevent": f"NAME={hca.name}",
    }
    optional = {"fw_ver": hca.firmware, "board_id": hca.board, "hca_type": hca.model}
    tree.texts(folder, {**contents, **{name: text for name, text in optional.items() if text}})
    tree.folder(f"{folder}/ports")
    for port in hca.ports:
        tree.texts(f"{folder}/ports/{port.number}", port_files(port, hca.guid))


def _write_uverbs(tree: TreeWriter, hca: HcaPart, nodes: Nodes) -> None:
    if hca.uverbs is None:
        return
    tree.text("sys/class/infiniband_verbs/abi_version", _UVERBS_ABI)
    node = nodes[f"uverbs{hca.uverbs}"]
    folder = _write_character(tree, _folder(hca), "infiniband_verbs", node)
    tree.texts(folder, {"ibdev": hca.name, "abi_version": _DEVICE_ABI})
    _link_device(tree, hca, folder)


def _write_mad(tree: TreeWriter, hca: HcaPart, port: PortPart, nodes: Nodes) -> None:
    for name in mad_names(port):
        tree.text("sys/class/infiniband_mad/abi_version", _MAD_ABI)
        folder = _write_character(tree, _folder(hca), "infiniband_mad", nodes[name])
        tree.texts(folder, {"ibdev": hca.name, "port": port.number})
        _link_device(tree, hca, folder)


def _write_character(tree: TreeWriter, parent: str, subsystem: str, node: DeviceNode) -> str:
    folder = _enter(tree, parent, subsystem, node.name)
    tree.text(f"{folder}/dev", f"{node.major}:{node.minor}")
    numbers = f"MAJOR={node.major}\nMINOR={node.minor}\n"
    tree.text(f"{folder}/uevent", f"{numbers}DEVNAME=infiniband/{node.name}\n")
    return folder


def _enter(tree: TreeWriter, parent: str, subsystem: str, name: str) -> str:
    folder = f"{parent}/{subsystem}/{name}"
    tree.folder(folder)
    tree.link(f"sys/class/{subsystem}/{name}", folder)
    tree.link(f"{folder}/subsystem", f"sys/class/{subsystem}")
    return folder


def _link_device(tree: TreeWriter, hca: HcaPart, folder: str) -> None:
    if hca.function is not None:
        tree.link(f"{folder}/device", sysfs_folder(hca.function))
