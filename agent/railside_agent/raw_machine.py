"""What was read of a tree, as text and without meaning: the one input of discovery.

A None is a file that was missing or could not be read. It must not interpret anything.
"""

from collections.abc import Mapping

import msgspec

from railside_proto.machine import DeviceNode


class RawNumaNode(msgspec.Struct, frozen=True, kw_only=True):
    """One folder of sys/devices/system/node."""

    name: str
    cpulist: str | None
    distance: str | None


class RawFunction(msgspec.Struct, frozen=True, kw_only=True):
    """One PCI function that may matter: its address and the folders above it, host bridge first."""

    address: str
    path: tuple[str, ...]
    vendor: str | None = None
    pci_class: str | None = None
    numa_node: str | None = None
    driver: str | None = None
    """Name of what ``driver`` points to; None where none is bound."""
    physfn: str | None = None
    """Address that ``physfn`` points to, even where nothing is there."""


class RawPort(msgspec.Struct, frozen=True, kw_only=True):
    """One folder of sys/class/infiniband/NAME/ports, but for what the card's firmware is asked for."""

    name: str
    link_layer: str | None


class RawPortState(msgspec.Struct, frozen=True, kw_only=True):
    """What the card's firmware says of one port: reading it can take milliseconds, or hang while it resets."""

    name: str
    state: str | None
    phys_state: str | None = None
    rate: str | None = None
    lid: str | None = None
    sm_lid: str | None = None


class RawRdmaDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of sys/class/infiniband."""

    name: str
    function: str | None
    """Address of the PCI function that ``device`` points to."""
    node_guid: str | None
    sys_image_guid: str | None = None
    hca_type: str | None
    fw_ver: str | None = None
    board_id: str | None = None
    ports: tuple[RawPort, ...]
    port_states: tuple[RawPortState, ...] | None = None
    """None where the card was not asked, or did not answer."""


class RawCharacterDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of sys/class/infiniband_verbs, or an umad of sys/class/infiniband_mad."""

    name: str
    ibdev: str | None
    dev: str | None
    """Numbers of its character device, ``231:192``."""


class RawDriverGpu(msgspec.Struct, frozen=True, kw_only=True):
    """What NVIDIA's driver says of one GPU: proc/driver/nvidia/gpus/ADDRESS/information."""

    address: str
    information: str | None


class RawMachine(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one look at a tree gave, each list sorted by name or address.

    ``functions`` are those of the RDMA devices, and others of a class that may matter.
    """

    numa_nodes: tuple[RawNumaNode, ...] = ()
    functions: tuple[RawFunction, ...] = ()
    rdma_devices: tuple[RawRdmaDevice, ...] = ()
    uverbs: tuple[RawCharacterDevice, ...] = ()
    umads: tuple[RawCharacterDevice, ...] = ()
    driver_gpus: tuple[RawDriverGpu, ...] = ()
    device_nodes: tuple[DeviceNode, ...] | None = None
    """Nodes in dev/infiniband; None where the tree has no dev at all, as a recording has none."""
    rdma_cm_dev: str | None = None
    virtual_topology: bool = False
    """Whether a regular file virtualTopology.xml is there."""
    virtual_topology_text: str | None = None
    """What stands in it; None where it cannot be read, or is far larger than such a file is."""
    netns_mode: str | None = None
    """``Y`` where every network namespace sees RDMA devices, ``N`` where only their owner does."""


def with_port_states(raw: RawMachine, states: Mapping[str, tuple[RawPortState, ...] | None]) -> RawMachine:
    """``raw`` with what the cards answered, by device name; None for one that did not answer in time."""
    devices = (msgspec.structs.replace(device, port_states=states.get(device.name)) for device in raw.rdma_devices)
    return msgspec.structs.replace(raw, rdma_devices=tuple(devices))
