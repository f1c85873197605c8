"""What a node is made of, in types that cannot be half filled: NUMA nodes, HCAs, GPUs and their paths.

It answers which of two functions are near. It must not read anything, and knows nothing of pods.
"""

import enum
from typing import Final, NewType

import msgspec

from railside_proto.reasons import Reason

PciAddress = NewType("PciAddress", str)
"""domain:bus:device.function in lower case, the domain with at least four digits: ``0000:1a:00.0``.

An RDMA device without a PCI function has its node GUID for it: ``guid:5c25:7303:00a1:4c10``.
"""

GUID_PREFIX: Final = "guid:"


def by_address(address: PciAddress) -> tuple[int, str]:
    """A key that sorts addresses as the kernel counts them: a domain of five digits comes after all of four."""
    return len(address.partition(":")[0]), address


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


class NetnsMode(enum.StrEnum):
    """Who sees an RDMA device (sys/module/ib_core/parameters/netns_mode)."""

    SHARED = "shared"
    """Every network namespace: what pods need."""
    EXCLUSIVE = "exclusive"
    """Only the namespace that owns it: a pod with a network of its own cannot use it."""


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
    phys_state: str = ""
    """Physical state in the kernel's word (``LinkUp``, ``Polling``); empty when it says none."""
    sm_lid: int = 0
    """Where the subnet manager is; 0 when the port knows of none."""


class Function(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A PCI function and where it hangs."""

    address: PciAddress
    path: tuple[str, ...]
    """From the host bridge (``pci0000:15``) through every bridge down to, not including, the function.

    Where virtualTopology.xml tells it: from the NUMA node's place there (``cpu0``) through the switches.
    """
    numa_node: int | None
    """None where nothing names a node, or one that the machine does not have."""
    told_by_file: bool = False
    """Whether ``path`` is what virtualTopology.xml tells."""


class RdmaDevice(Function, frozen=True, kw_only=True, rename="camel"):
    """What any RDMA device is known by: its address is its identity, all names may change."""

    name: str
    node_guid: str
    ports: tuple[Port, ...]
    model: str = ""
    sys_image_guid: str = ""
    """The card's, which its ports' devices and its virtual functions share."""
    firmware: str = ""
    board: str = ""
    parent: PciAddress | None = None
    """The physical function of a virtual one; None too in a virtual machine, which is not told of it."""
    parent_seen: bool = False
    """Whether ``parent`` is a function of this machine."""
    silent: bool = False
    """The card was not asked, or did not answer in time: what its ports say is nothing."""

    @property
    def software(self) -> bool:
        """Whether it has no PCI function."""
        return self.address.startswith(GUID_PREFIX)


class Hca(RdmaDevice, frozen=True, kw_only=True, rename="camel"):
    """An RDMA device that is complete and can be offered."""

    uverbs: DeviceNode
    umads: tuple[DeviceNode, ...] = ()
    """Management nodes of its ports, where the kernel made any."""


class Gpu(Function, frozen=True, kw_only=True, rename="camel"):
    """A GPU; ``uuid`` is how the kubelet's GPU plugin calls it, None where no driver tells."""

    vendor: str
    model: str = ""
    uuid: str | None = None
    index: int | None = None
    """The driver's minor number, as in /dev/nvidia3; None where no driver tells."""


class NumaNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A place of CPUs. Nodes that hold only memory, as those of some GPUs, are not listed."""

    number: int
    cpus: str
    """In the kernel's list form, ``0-55,112-167``."""
    distances: tuple[int, ...] = ()
    """To each NUMA node of the machine, in their order; empty where the kernel does not say all of them."""


class Excluded(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An RDMA device, or a function that should be one, that is not offered, and why."""

    name: str
    """Its name; the address of a function that has no RDMA device."""
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
    topology_problem: Reason | None = None
    """Why that file tells nothing, where it should."""
    netns_mode: NetnsMode | None = None
    """None where the kernel has no such mode, or no RDMA."""


_SHARED_SWITCH: Final = 1
"""Bridges that may differ under PIX: the device's own downstream port."""


def path_class(one: Function, other: Function) -> PathClass:
    """The class of the path between two functions, by the bridges they share (as ``nvidia-smi topo -m``)."""
    shared = _common_prefix(one.path, other.path)
    if shared == 0:
        return _between_host_bridges(one, other)
    if not bridges(one.path[:shared]):
        return PathClass.PHB
    longest = max(len(one.path), len(other.path))
    return PathClass.PIX if longest - shared <= _SHARED_SWITCH else PathClass.PXB


def bridges(path: tuple[str, ...]) -> tuple[str, ...]:
    """The bridges of a path below its last host bridge; a VMD controller has one of its own within the path."""
    hosts = [index for index, part in enumerate(path) if "." not in part]
    return path[hosts[-1] + 1 :] if hosts else path


def _between_host_bridges(one: Function, other: Function) -> PathClass:
    known = one.numa_node is not None and one.numa_node == other.numa_node
    return PathClass.NODE if known else PathClass.SYS


def _common_prefix(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    pairs = zip(one, other, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
