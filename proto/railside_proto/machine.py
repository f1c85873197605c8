"""What a node is made of, in types that cannot be half filled: NUMA nodes, HCAs, GPUs and their paths.

It answers which of two functions are near. It must not read anything, and knows nothing of pods.
"""

import enum
from typing import Final, NewType

import msgspec

from railside_proto.reasons import Reason

PciAddress = NewType("PciAddress", str)
"""domain:bus:device.function in lower case, the domain with at least four digits: ``0000:1a:00.0``."""


class PathClass(enum.IntEnum):
    """How far two functions are apart, nearest first, in the words of ``nvidia-smi topo -m``."""

    PIX = 1
    """At most one PCIe switch between them."""
    PXB = 2
    """Several bridges, but one root port."""
    PHB = 3
    """One host bridge, no bridge in common."""
    NODE = 4
    """Different host bridges of one NUMA node."""
    SYS = 5
    """Different NUMA nodes, or a NUMA node nobody knows."""


class LinkLayer(enum.StrEnum):
    """What a port speaks, in the words of sysfs ``link_layer``."""

    INFINIBAND = "InfiniBand"
    ETHERNET = "Ethernet"
    UNSPECIFIED = "Unspecified"


class PortState(enum.StrEnum):
    """Logical state of a port, in the words and in the order of sysfs ``state``."""

    NOP = "NOP"
    DOWN = "DOWN"
    INIT = "INIT"
    ARMED = "ARMED"
    ACTIVE = "ACTIVE"
    ACTIVE_DEFER = "ACTIVE_DEFER"

    @property
    def number(self) -> int:
        """How the kernel counts it: 0 for NOP to 5 for ACTIVE_DEFER."""
        return list(PortState).index(self)


class DeviceNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A character device under /dev/infiniband: its name there, its numbers, and how the host guards it."""

    name: str
    major: int
    minor: int
    mode: int = 0o666
    """Permission bits."""
    uid: int = 0
    gid: int = 0


class Port(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One port of an HCA."""

    number: int
    link_layer: LinkLayer
    state: PortState
    rate_gbps: float = 0.0
    """Gigabits per second; 0 when the kernel says none."""
    lid: int = 0
    """Local identifier; 0 when no subnet manager gave one."""


class Function(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A PCI function and where it hangs."""

    address: PciAddress
    path: tuple[str, ...]
    """From the host bridge (``pci0000:15``) through every bridge down to, not including, the function."""
    numa_node: int | None
    """None where the firmware names no node, or one that the machine does not have."""


class Hca(Function, frozen=True, kw_only=True, rename="camel"):
    """An InfiniBand adapter that can be offered: its address is its identity, all names may change."""

    name: str
    node_guid: str
    uverbs: DeviceNode
    umads: tuple[DeviceNode, ...] = ()
    ports: tuple[Port, ...]
    model: str = ""


class Gpu(Function, frozen=True, kw_only=True, rename="camel"):
    """A GPU; ``uuid`` is how the kubelet's GPU plugin calls it, None where no driver tells."""

    vendor: str
    model: str = ""
    uuid: str | None = None


class NumaNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A place of CPUs. Nodes that hold only memory, as those of some GPUs, are not listed."""

    number: int
    cpus: str
    """In the kernel's list form, ``0-55,112-167``."""
    distances: tuple[int, ...] = ()


class Excluded(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An RDMA device that is not offered, and why."""

    name: str
    reason: Reason
    address: PciAddress | None = None


class Machine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One node's hardware at one moment. All lists are sorted by number or address."""

    numa_nodes: tuple[NumaNode, ...] = ()
    hcas: tuple[Hca, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    rdma_cm: DeviceNode | None = None
    """The connection manager's node; absent where its module is not loaded, which harms nobody else."""
    virtual_topology: bool = False
    """Whether the host has a regular file virtualTopology.xml to show to containers."""


_SHARED_SWITCH: Final = 1
"""Bridges that may differ under PIX: the device's own downstream port."""


def path_class(one: Function, other: Function) -> PathClass:
    """The class of the path between two functions, by the bridges they share (as ``nvidia-smi topo -m``)."""
    if one.path[:1] != other.path[:1] or not one.path:
        return _between_host_bridges(one, other)
    shared = _common_prefix(one.path, other.path)
    if shared == 1:
        return PathClass.PHB
    longest = max(len(one.path), len(other.path))
    return PathClass.PIX if longest - shared <= _SHARED_SWITCH else PathClass.PXB


def _between_host_bridges(one: Function, other: Function) -> PathClass:
    known = one.numa_node is not None and one.numa_node == other.numa_node
    return PathClass.NODE if known else PathClass.SYS


def _common_prefix(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    pairs = zip(one, other, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
