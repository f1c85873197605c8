"""Reads a machine's tree (sys, proc, dev, var/run below one root) into a RawMachine, in one blocking look.

It must not interpret what it reads, and nothing in the tree may make it raise: odd files become None. It raises
OSError only where this process has no descriptor or memory left to look with.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from railside_agent.device_nodes import DeviceNodes
from railside_agent.raw_machine import (
    RawDriverGpu,
    RawFunction,
    RawMachine,
    RawNumaNode,
    RawPort,
    RawPortState,
    RawRdmaDevice,
    RawUverbs,
    with_port_states,
)
from railside_proto.machine import DeviceNode
from railside_proto.names import TOPOLOGY_DIR, TOPOLOGY_FILE

LONGEST_TEXT_BYTES: Final = 4096
"""A sysfs file is at most a page; more than that is not a sysfs file."""

_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_PCI_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_HOST_BRIDGE: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", re.IGNORECASE)
_NUMA_NODE: Final = re.compile(r"node\d{1,4}")


def read_machine(root: Path, nodes: DeviceNodes) -> RawMachine:
    """Everything below ``root`` that discovery asks for, without asking any card's firmware.

    Blocks: call it in a thread, never on the loop.
    """
    sys_class = root / "sys/class"
    return RawMachine(
        numa_nodes=tuple(_numa_nodes(root / "sys/devices/system/node")),
        functions=tuple(_functions(root / "sys/bus/pci/devices")),
        rdma_devices=tuple(_rdma_devices(sys_class / "infiniband")),
        uverbs=tuple(_uverbs(sys_class / "infiniband_verbs")),
        driver_gpus=tuple(_driver_gpus(root / "proc/driver/nvidia/gpus")),
        device_nodes=_device_nodes(root / "dev", nodes),
        rdma_cm_dev=read_text(sys_class / "misc/rdma_cm/dev"),
        virtual_topology=has_virtual_topology(root),
    )


def read_port_states(root: Path, device: str) -> tuple[RawPortState, ...]:
    """What the firmware of ``device`` says of its ports. Blocks, and may hang: call it in a thread of its own."""
    folder = root / "sys/class/infiniband" / device / "ports"
    return tuple(
        RawPortState(
            name=_name(entry),
            state=read_text(entry / "state"),
            rate=read_text(entry / "rate"),
            lid=read_text(entry / "lid"),
        )
        for entry in _entries(folder)
    )


def read_whole_machine(root: Path, nodes: DeviceNodes) -> RawMachine:
    """The machine and what each of its cards answers, one after the other. Blocks, and may hang."""
    raw = read_machine(root, nodes)
    return with_port_states(raw, {one.name: read_port_states(root, one.name) for one in raw.rdma_devices})


def has_virtual_topology(root: Path) -> bool:
    """Whether the host has a regular file virtualTopology.xml now. Blocks."""
    return _kind(root / TOPOLOGY_DIR / TOPOLOGY_FILE) == stat.S_IFREG


def read_text(path: Path) -> str | None:
    """A small file's text without its surrounding blanks; None where it cannot be read, or is not text."""
    try:
        # Non-blocking, so that a pipe in an odd tree is an empty file and not a hang.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        _raise_if_exhausted(error)
        return None
    try:
        content = os.read(descriptor, LONGEST_TEXT_BYTES)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return content.decode("utf-8", errors="replace").strip("\0 \t\r\n")


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        _raise_if_exhausted(error)
        return []


def _name(entry: Path) -> str:
    """Its name as text, whatever bytes it is made of."""
    return os.fsencode(entry.name).decode("utf-8", errors="replace")


def _raise_if_exhausted(error: OSError) -> None:
    """What this process lacks says nothing of the machine: a look that fails is better than one that lies."""
    if error.errno in _EXHAUSTED:
        raise error


def _numa_nodes(folder: Path) -> Iterator[RawNumaNode]:
    for entry in _entries(folder):
        if _NUMA_NODE.fullmatch(entry.name):
            yield RawNumaNode(
                name=_name(entry),
                cpulist=read_text(entry / "cpulist"),
                distance=read_text(entry / "distance"),
            )


def _functions(folder: Path) -> Iterator[RawFunction]:
    for entry in _entries(folder):
        if _PCI_ADDRESS.fullmatch(entry.name):
            yield RawFunction(
                address=_name(entry),
                path=_path_above(entry),
                vendor=read_text(entry / "vendor"),
                pci_class=read_text(entry / "class"),
                numa_node=read_text(entry / "numa_node"),
                physfn=_target_name(entry / "physfn"),
            )


def _path_above(function: Path) -> tuple[str, ...]:
    """The host bridge and the bridges above a function, by the folders that its link goes through."""
    parts = Path(os.path.realpath(function)).parts[:-1]
    bridge = next((index for index, part in enumerate(parts) if _HOST_BRIDGE.fullmatch(part)), len(parts))
    return parts[bridge:]


def _target_name(link: Path) -> str | None:
    """Name of what a link points to, if that is there; some trees hold links to nothing."""
    return Path(os.path.realpath(link)).name if _kind(link) else None


def _rdma_devices(folder: Path) -> Iterator[RawRdmaDevice]:
    for entry in _entries(folder):
        if _kind(entry) == stat.S_IFDIR:
            yield RawRdmaDevice(
                name=_name(entry),
                function=_pci_address(_target_name(entry / "device")),
                node_guid=read_text(entry / "node_guid"),
                hca_type=read_text(entry / "hca_type"),
                ports=tuple(_ports(entry / "ports")),
            )


def _pci_address(name: str | None) -> str | None:
    return name if name is not None and _PCI_ADDRESS.fullmatch(name) else None


def _ports(folder: Path) -> Iterator[RawPort]:
    for entry in _entries(folder):
        yield RawPort(
            name=_name(entry),
            link_layer=read_text(entry / "link_layer"),
        )


def _uverbs(folder: Path) -> Iterator[RawUverbs]:
    for entry in _entries(folder):
        if _kind(entry) == stat.S_IFDIR:
            yield RawUverbs(
                name=_name(entry),
                ibdev=read_text(entry / "ibdev"),
                dev=read_text(entry / "dev"),
            )


def _driver_gpus(folder: Path) -> Iterator[RawDriverGpu]:
    for entry in _entries(folder):
        yield RawDriverGpu(address=_name(entry), information=read_text(entry / "information"))


def _device_nodes(dev: Path, nodes: DeviceNodes) -> tuple[DeviceNode, ...] | None:
    if _kind(dev) != stat.S_IFDIR:
        return None
    found = (nodes.read(entry) for entry in _entries(dev / "infiniband"))
    return tuple(node for node in found if node is not None)


def _kind(path: Path) -> int:
    """File type of what ``path`` leads to, as in ``stat.S_IFMT``; 0 where it leads nowhere."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except OSError:
        return 0
