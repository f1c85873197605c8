"""Reads a machine's tree (sys, proc, dev, var/run below one root) into a RawMachine, in one blocking look.

It must not interpret what it reads, and nothing in the tree may make it raise: odd files become None. It raises
OSError only where this process has no descriptor or memory left to look with.
"""

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from railside_agent.device_nodes import DeviceNodes
from railside_agent.raw_machine import (
    RawCharacterDevice,
    RawDriverGpu,
    RawFunction,
    RawMachine,
    RawNumaNode,
    RawPort,
    RawPortState,
    RawRdmaDevice,
    with_port_states,
)
from railside_agent.tree_files import (
    folders_in,
    kind,
    link_target_name,
    link_text,
    names_in,
    printable,
    read_regular,
    read_text,
    top_of,
)
from railside_proto.machine import DeviceNode
from railside_proto.names import TOPOLOGY_DIR, TOPOLOGY_FILE

LONGEST_TOPOLOGY_BYTES: Final = 1 << 20
"""The largest virtualTopology.xml seen is 15 kB."""

_PCI_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_HOST_BRIDGE: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", re.IGNORECASE)
_NUMA_NODE: Final = re.compile(r"node\d{1,4}")

_NETWORK: Final = "0x02"
_GPU_CLASSES: Final = ("0x03", "0x12")
"""Displays and accelerators: the beginnings of the classes that GPUs have."""


def read_machine(root: Path, nodes: DeviceNodes) -> RawMachine:
    """Everything below ``root`` that discovery asks for, without asking any card's firmware.

    Blocks: call it in a thread, never on the loop.
    """
    top = top_of(root)
    sys_class = f"{top}/sys/class"
    rdma_devices = tuple(_rdma_devices(f"{sys_class}/infiniband"))
    device_nodes = _device_nodes(root / "dev", nodes)
    return RawMachine(
        numa_nodes=tuple(_numa_nodes(f"{top}/sys/devices/system/node")),
        functions=tuple(_functions(f"{top}/sys/bus/pci/devices", {one.function for one in rdma_devices})),
        rdma_devices=rdma_devices,
        uverbs=tuple(_character_devices(f"{sys_class}/infiniband_verbs", "uverbs")),
        umads=tuple(_character_devices(f"{sys_class}/infiniband_mad", "umad")),
        driver_gpus=tuple(_driver_gpus(f"{top}/proc/driver/nvidia/gpus")),
        device_nodes=device_nodes,
        rdma_cm_dev=read_text(f"{sys_class}/misc/rdma_cm/dev"),
        virtual_topology=has_virtual_topology(root),
        virtual_topology_text=read_regular(_topology_file(root), LONGEST_TOPOLOGY_BYTES),
        netns_mode=read_text(f"{top}/sys/module/ib_core/parameters/netns_mode"),
    )


def read_port_states(root: Path, device: str) -> tuple[RawPortState, ...]:
    """What the firmware of ``device`` says of its ports. Blocks, and may hang: call it in a thread of its own."""
    folder = f"{top_of(root)}/sys/class/infiniband/{device}/ports"
    return tuple(_port_state(printable(name), f"{folder}/{name}") for name in names_in(folder))


def read_whole_machine(root: Path, nodes: DeviceNodes) -> RawMachine:
    """The machine and what each of its cards answers, one after the other. Blocks, and may hang."""
    raw = read_machine(root, nodes)
    return with_port_states(raw, {one.name: read_port_states(root, one.name) for one in raw.rdma_devices})


def has_virtual_topology(root: Path) -> bool:
    """Whether the host has a regular file virtualTopology.xml now. Blocks."""
    return kind(_topology_file(root)) == stat.S_IFREG


def _topology_file(root: Path) -> str:
    return f"{top_of(root)}/{TOPOLOGY_DIR}/{TOPOLOGY_FILE}"


def _numa_nodes(folder: str) -> Iterator[RawNumaNode]:
    for name in names_in(folder):
        if _NUMA_NODE.fullmatch(name):
            yield RawNumaNode(
                name=name,
                cpulist=read_text(f"{folder}/{name}/cpulist"),
                distance=read_text(f"{folder}/{name}/distance"),
            )


def _functions(folder: str, of_rdma_devices: set[str | None]) -> Iterator[RawFunction]:
    """The functions of RDMA devices, and those of a class that GPUs and network controllers have."""
    for name in names_in(folder):
        if _PCI_ADDRESS.fullmatch(name):
            place = f"{folder}/{name}"
            pci_class = read_text(f"{place}/class")
            if name in of_rdma_devices or (pci_class or "").startswith((_NETWORK, *_GPU_CLASSES)):
                yield _function(name, place, pci_class)


def _function(address: str, place: str, pci_class: str | None) -> RawFunction:
    is_gpu = (pci_class or "").startswith(_GPU_CLASSES)
    return RawFunction(
        address=address,
        path=_path_above(place),
        vendor=read_text(f"{place}/vendor"),
        pci_class=pci_class,
        numa_node=read_text(f"{place}/numa_node"),
        driver=None if is_gpu else link_target_name(f"{place}/driver"),
        physfn=None if is_gpu else _pci_address(link_target_name(f"{place}/physfn")),
    )


def _path_above(function: str) -> tuple[str, ...]:
    """The host bridge and the bridges above a function, by the folders that its link on the bus goes through."""
    parts = (link_text(function) or "").split("/")[:-1]
    bridge = next((index for index, part in enumerate(parts) if _HOST_BRIDGE.fullmatch(part)), len(parts))
    return tuple(map(printable, parts[bridge:]))


def _rdma_devices(folder: str) -> Iterator[RawRdmaDevice]:
    for name in folders_in(folder):
        place = f"{folder}/{name}"
        yield RawRdmaDevice(
            name=printable(name),
            function=_function_of(f"{place}/device"),
            node_guid=read_text(f"{place}/node_guid"),
            sys_image_guid=read_text(f"{place}/sys_image_guid"),
            hca_type=read_text(f"{place}/hca_type"),
            fw_ver=read_text(f"{place}/fw_ver"),
            board_id=read_text(f"{place}/board_id"),
            ports=tuple(_ports(f"{place}/ports")),
        )


def _function_of(link: str) -> str | None:
    """The PCI function that a device's link leads to; some trees hold links to nothing."""
    return _pci_address(link_target_name(link)) if kind(link) else None


def _pci_address(name: str | None) -> str | None:
    return name if name is not None and _PCI_ADDRESS.fullmatch(name) else None


def _ports(folder: str) -> Iterator[RawPort]:
    for name in names_in(folder):
        yield RawPort(name=printable(name), link_layer=read_text(f"{folder}/{name}/link_layer"))


def _port_state(name: str, place: str) -> RawPortState:
    return RawPortState(
        name=name,
        state=read_text(f"{place}/state"),
        phys_state=read_text(f"{place}/phys_state"),
        rate=read_text(f"{place}/rate"),
        lid=read_text(f"{place}/lid"),
        sm_lid=read_text(f"{place}/sm_lid"),
    )


def _character_devices(folder: str, prefix: str) -> Iterator[RawCharacterDevice]:
    for name in folders_in(folder):
        if name.startswith(prefix):
            yield RawCharacterDevice(
                name=printable(name),
                ibdev=read_text(f"{folder}/{name}/ibdev"),
                dev=read_text(f"{folder}/{name}/dev"),
            )


def _driver_gpus(folder: str) -> Iterator[RawDriverGpu]:
    for name in names_in(folder):
        yield RawDriverGpu(address=printable(name), information=read_text(f"{folder}/{name}/information"))


def _device_nodes(dev: Path, nodes: DeviceNodes) -> tuple[DeviceNode, ...] | None:
    if kind(str(dev)) != stat.S_IFDIR:
        return None
    folder = dev / "infiniband"
    found = (nodes.read(folder / name) for name in names_in(str(folder)))
    return tuple(node for node in found if node is not None)
