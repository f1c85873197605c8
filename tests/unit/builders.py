"""Small sound values to start from: a test names only the facts that it is about. It must hold no expectation."""

import io
from pathlib import Path
from typing import Any

import msgspec

from railside_agent.discovery import discover
from railside_agent.sysfs import read_whole_machine
from railside_agent.virtual_topology import TopologySource
from railside_proto.machine import (
    DeviceNode,
    Gpu,
    Hca,
    LinkLayer,
    Machine,
    NumaNode,
    PciAddress,
    Port,
    PortState,
)
from railside_proto.pool import Selector
from railside_proto.reasons import Code
from railside_runtime.logs import make_logger
from railside_sim.manifest import parse_manifest
from railside_sim.stand_in_nodes import StandInNodes
from railside_sim.tree import write_tree

RDMA_CM = DeviceNode(name="rdma_cm", major=10, minor=58)

TWO_NUMA = """
numa 0 cpus=0-3 distances=10,21
numa 1 cpus=4-7 distances=21,10
"""

ONE_HCA = """
hca pci0000:15/0000:15:01.0/0000:16:00.0 numa=0 name=mlx5_0 uverbs=0 guid=5c25:7303:00a1:4c10 type=MT4129
port mlx5_0 1 link=InfiniBand state=ACTIVE lid=0x1a umad=0
rdma_cm 10:58
"""


FUNCTION = "pci0000:15/0000:15:01.0/0000:16:00.0"
RDMA = f"sys/devices/{FUNCTION}/infiniband/mlx5_0"
ETHERNET = "link=Ethernet state=ACTIVE"
INFINIBAND = "link=InfiniBand state=ACTIVE"


def one_device(*ports: str, facts: str = "uverbs=0", path: str = FUNCTION, numa: int = 0) -> str:
    """A machine of text: two NUMA nodes and one RDMA device with ``ports``."""
    lines = [f"port mlx5_0 {number} {port}" for number, port in enumerate(ports, start=1)]
    guid = "5c25:7303:00a1:4c10"
    return "\n".join([TWO_NUMA, f"hca {path} numa={numa} name=mlx5_0 guid={guid} {facts}", *lines])


def left_out(machine: Machine) -> dict[str, Code]:
    """What a machine does not offer, and why."""
    return {one.name: one.reason.code for one in machine.excluded}


def hca_names(machine: Machine) -> list[str]:
    """The HCAs that it offers, in their order."""
    return [hca.name for hca in machine.hcas]


def port(
    state: PortState = PortState.ACTIVE,
    *,
    number: int = 1,
    link_layer: LinkLayer = LinkLayer.INFINIBAND,
    phys_state: str = "",
    sm_lid: int = 0,
) -> Port:
    return Port(number=number, link_layer=link_layer, state=state, phys_state=phys_state, sm_lid=sm_lid)


def hca(number: int, numa_node: int | None = 0, **facts: object) -> Hca:
    """An HCA of its own: address, name, GUID and device node all end in ``number``."""
    sound = Hca(
        address=PciAddress(f"0000:{number:02x}:00.0"),
        path=(f"pci0000:{number:02x}",),
        numa_node=numa_node,
        name=f"mlx5_{number}",
        node_guid=f"5c25:7303:00a1:{number:04x}",
        uverbs=DeviceNode(name=f"uverbs{number}", major=231, minor=192 + number),
        ports=(port(),),
    )
    return msgspec.structs.replace(sound, **facts)


def gpu(number: int, path: tuple[str, ...], numa_node: int | None = 0) -> Gpu:
    address = PciAddress(f"0000:{number:02x}:00.0")
    return Gpu(address=address, path=path, numa_node=numa_node, vendor="nvidia")


def machine(*hcas: Hca, **facts: object) -> Machine:
    """A machine of two NUMA nodes with ``hcas``."""
    numa_nodes = (NumaNode(number=0, cpus="0-3"), NumaNode(number=1, cpus="4-7"))
    return msgspec.structs.replace(Machine(numa_nodes=numa_nodes, hcas=hcas), **facts)


def tree(text: str, root: Path, **numbers: tuple[int, int]) -> Path:
    """The tree of a manifest, with stand-ins for its device nodes; ``numbers`` are by node name."""
    write_tree(parse_manifest(text), root, make_node=StandInNodes().make, numbers=numbers)
    return root


def seen(root: Path, *selectors: Selector, topology: TopologySource = TopologySource.AUTO) -> Machine:
    """What the agent sees below ``root``."""
    raw = read_whole_machine(root, StandInNodes())
    return discover(raw, selectors or (Selector(),), topology=topology)


class LogLines:
    """A logger whose lines can be read back."""

    def __init__(self) -> None:
        self._stream = io.BytesIO()
        self.log = make_logger("debug", "json", self._stream)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self._stream.getvalue().splitlines()]

    @property
    def events(self) -> list[str]:
        return [line["event"] for line in self.lines]
