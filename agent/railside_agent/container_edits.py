"""What a container gets: the answer to Allocate, and the contents of the directories that it points to.

Allocate is answered once and replayed for ever, so it names a directory; what lies in it is written at each
start. It must not touch files, and must not know the kubelet's messages.
"""

import hashlib

import msgspec

from railside_agent.binding import Bound
from railside_proto.machine import DeviceNode, Hca, Machine, PciAddress
from railside_proto.names import CONTAINER_DEVICES, CONTAINER_INFO, RUN_DIR, TOPOLOGY_DIR
from railside_proto.pool import Container, Pool

ALLOCATIONS = f"{RUN_DIR}/alloc"
"""Below the machine's root: one folder for each set of seats."""

DEVICES_LINK = "ib"
INFO_FOLDER = "info"
ALLOCATION_FILE = "allocation.json"


class DeviceEdit(msgspec.Struct, frozen=True, kw_only=True):
    """A directory of device nodes that the runtime walks at each start of the container."""

    host_path: str
    container_path: str


class MountEdit(msgspec.Struct, frozen=True, kw_only=True):
    """A read-only bind mount."""

    host_path: str
    container_path: str


class ContainerEdits(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer to Allocate for one container."""

    devices: tuple[DeviceEdit, ...]
    mounts: tuple[MountEdit, ...]


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What lies in a container's directories after a start."""

    nodes: tuple[DeviceNode, ...]
    files: dict[str, str]
    """Text by file name, for the folder that the container sees read-only."""


def allocation_key(pool: Pool, seats: tuple[str, ...]) -> str:
    """Name of the folder for ``seats``, the same in whatever order the kubelet lists them."""
    text = "\0".join((pool.resource, *sorted(seats)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def edits(pool: Pool, seats: tuple[str, ...], host_root: str, *, virtual_topology: bool) -> ContainerEdits:
    """The answer to Allocate for ``seats``: paths of the host, below ``host_root``, that PreStart will fill.

    The topology's directory and not its file is mounted: the file alone makes a pod that mounts the directory
    itself fail for ever, and only where the host has the file: a missing path would be made there, as root.
    """
    folder = f"{host_root}/{ALLOCATIONS}/{allocation_key(pool, seats)}"
    info = MountEdit(host_path=f"{folder}/{INFO_FOLDER}", container_path=f"{CONTAINER_INFO}/{pool.name}")
    topology = MountEdit(host_path=f"{host_root}/{TOPOLOGY_DIR}", container_path=f"/{TOPOLOGY_DIR}")
    return ContainerEdits(
        devices=(DeviceEdit(host_path=f"{folder}/{DEVICES_LINK}", container_path=CONTAINER_DEVICES),),
        mounts=(info, topology) if virtual_topology else (info,),
    )


def contents(bound: Bound, machine: Machine) -> Contents:
    """Nodes and files of a bound container: its HCAs' uverbs nodes and rdma_cm, and nothing of others."""
    shared = (machine.rdma_cm,) if machine.rdma_cm else ()
    return Contents(
        nodes=(*(hca.uverbs for hca in bound.hcas), *shared),
        files={
            "hcas": "".join(f"{hca.name}\n" for hca in bound.hcas),
            "nccl.conf": f"NCCL_IB_HCA=={','.join(hca.name for hca in bound.hcas)}\n",
            ALLOCATION_FILE: _allocation(bound),
        },
    )


def container(bound: Bound) -> Container:
    """What the books say of a container that was bound."""
    return Container(seats=bound.seats, hcas=tuple(hca.address for hca in bound.hcas))


class _Given(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    address: str
    name: str
    node_guid: str
    numa_node: int | None
    device: str


class _Allocation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Layout of allocation.json."""

    seats: tuple[str, ...]
    hcas: tuple[_Given, ...]


def _allocation(bound: Bound) -> str:
    layout = _Allocation(seats=bound.seats, hcas=tuple(map(_given, bound.hcas)))
    return msgspec.json.format(msgspec.json.encode(layout)).decode() + "\n"


def _given(hca: Hca) -> _Given:
    return _Given(
        address=hca.address,
        name=hca.name,
        node_guid=hca.node_guid,
        numa_node=hca.numa_node,
        device=f"{CONTAINER_DEVICES}/{hca.uverbs.name}",
    )


def still_true(container: Container, laid_out: frozenset[DeviceNode], machine: Machine) -> bool:
    """Whether what is laid out for ``container`` is what its HCAs are called and numbered on ``machine`` now.

    The kubelet can start a container without asking us, right after its own restart: what is no longer true
    must be gone by then, as the same name and numbers may be another pod's HCA.
    """
    now = {hca.address: _numbers(hca.uverbs) for hca in machine.hcas}
    its_own = {now.get(PciAddress(address)) for address in container.hcas}
    shared = {_numbers(machine.rdma_cm)} if machine.rdma_cm else set()
    given = {_numbers(node) for node in laid_out}
    return its_own <= given <= its_own | shared


def _numbers(node: DeviceNode) -> tuple[str, int, int]:
    return (node.name, node.major, node.minor)


def read_allocation(text: bytes) -> Container | None:
    """The container that an allocation.json tells of; None where it is not one."""
    try:
        layout = msgspec.json.decode(text, type=_Allocation)
    except msgspec.MsgspecError:
        return None
    return Container(seats=layout.seats, hcas=tuple(given.address for given in layout.hcas))
