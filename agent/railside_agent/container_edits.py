"""What a container gets: the answer to Allocate, and the contents of the directories that it points to.

Allocate is answered once and replayed for ever, so it names a directory; what lies in it is written at each
start. It must not touch files, and must not know the kubelet's messages.
"""

import hashlib
from collections.abc import Iterable

import msgspec

from railside_agent.binding import Bound
from railside_agent.kernel_text import guid
from railside_proto.machine import DeviceNode, Hca, Machine
from railside_proto.names import (
    CONTAINER_DEVICES,
    CONTAINER_INFO,
    NCCL_CONFIG_FILE,
    NCCL_CONFIG_VARIABLE,
    RUN_DIR,
    TOPOLOGY_DIR,
)
from railside_proto.pool import Binding, Pool

ALLOCATIONS = f"{RUN_DIR}/alloc"
"""Below the machine's root: one folder for each set of seats."""

_KEY_LETTERS = 16
DEVICES_LINK = "ib"
INFO_FOLDER = "info"


class DeviceEdit(msgspec.Struct, frozen=True, kw_only=True):
    """A device node, or a directory of them that the runtime walks at each start of the container."""

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
    environment: dict[str, str] = {}


class Style(msgspec.Struct, frozen=True, kw_only=True):
    """How the operator wants containers to be served."""

    host_root: str = ""
    """What the kubelet must put before every path."""
    nccl_config: bool = False
    """Whether NCCL is pointed to the file that names the container's HCAs."""
    umad: bool = False
    """Whether containers may send management packets to the fabric."""
    pool_index: int = 0
    """Which of the node's pools this is: two of them in one container must not share a spelling of the folder."""


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What lies in a container's directories after a start."""

    nodes: tuple[DeviceNode, ...]
    files: dict[str, str]
    """Text by file name, for the folder that the container sees read-only."""


def allocation_key(pool: Pool, seats: tuple[str, ...]) -> str:
    """Name of the folder for ``seats``, the same in whatever order the kubelet lists them."""
    text = "\0".join((pool.resource, *sorted(seats)))
    return f"{pool.name}.{hashlib.sha256(text.encode()).hexdigest()[:_KEY_LETTERS]}"


def allocation_folders(pool: Pool) -> str:
    """Pattern of the names that ``allocation_key`` gives."""
    return f"{pool.name}." + "[0-9a-f]" * _KEY_LETTERS


def edits(pool: Pool, seats: tuple[str, ...], style: Style, *, virtual_topology: bool) -> ContainerEdits:
    """The answer to Allocate for ``seats``: paths of the host that PreStart will fill.

    The topology's directory and not its file is mounted: the file alone makes a pod that mounts the directory
    itself fail for ever, and only where the host has the file: a missing path would be made there, as root.
    """
    folder = f"{style.host_root}/{ALLOCATIONS}/{allocation_key(pool, seats)}"
    inside = CONTAINER_DEVICES + "/." * style.pool_index
    return ContainerEdits(
        devices=(DeviceEdit(host_path=f"{folder}/{DEVICES_LINK}", container_path=inside),),
        mounts=_mounts(pool, folder, style, virtual_topology=virtual_topology),
        environment=_environment(pool, style),
    )


def plain_edits(pool: Pool, bound: Bound, machine: Machine, style: Style) -> ContainerEdits:
    """The answer where HCAs are bound at Allocate: their device nodes, by the names of this moment."""
    folder = f"{style.host_root}/{ALLOCATIONS}/{allocation_key(pool, bound.seats)}"
    names = [node.name for node in device_nodes(bound.hcas, machine, style)]
    return ContainerEdits(
        devices=tuple(_plain(name, style) for name in names),
        mounts=_mounts(pool, folder, style, virtual_topology=machine.virtual_topology),
        environment=_environment(pool, style),
    )


def contents(bound: Bound, machine: Machine, style: Style, files: dict[str, str]) -> Contents:
    """Nodes and files of a bound container."""
    return Contents(nodes=device_nodes(bound.hcas, machine, style), files=files)


def device_nodes(hcas: Iterable[Hca], machine: Machine, style: Style) -> tuple[DeviceNode, ...]:
    """The nodes of ``hcas`` and rdma_cm, and nothing of others; those of fabric management by setting alone."""
    mine = tuple(hcas)
    umads = tuple(node for hca in mine for node in hca.umads) if style.umad else ()
    shared = (machine.rdma_cm,) if machine.rdma_cm else ()
    uverbs = dict.fromkeys(hca.uverbs for hca in mine)
    return (*uverbs, *dict.fromkeys(umads), *shared)


def still_true(binding: Binding, laid_out: frozenset[DeviceNode], machine: Machine) -> bool:
    """Whether what is laid out for ``binding`` is what its HCAs are called and numbered on ``machine`` now.

    The kubelet can start a container without asking us, right after its own restart: what is no longer true
    must be gone by then, as the same name and numbers may be another pod's HCA.
    """
    now = {hca.address: hca for hca in machine.hcas}
    mine = [now[address] for address in binding.hcas if address in now]
    if len(mine) < len(binding.hcas) or _is_another_card(mine, binding.guids):
        return False
    its_own = {_numbers(hca.uverbs) for hca in mine}
    others = {_numbers(node) for hca in mine for node in hca.umads}
    shared = {_numbers(machine.rdma_cm)} if machine.rdma_cm else set()
    given = {_numbers(node) for node in laid_out}
    return its_own <= given <= its_own | others | shared


def _is_another_card(hcas: list[Hca], guids: tuple[str, ...]) -> bool:
    """Whether a card was swapped: it may be called and numbered as the one before. No GUID tells nothing."""
    pairs = zip((guid(hca.node_guid) for hca in hcas), map(guid, guids), strict=False)
    return any(now and before and now != before for now, before in pairs)


def _mounts(pool: Pool, folder: str, style: Style, *, virtual_topology: bool) -> tuple[MountEdit, ...]:
    info = MountEdit(host_path=f"{folder}/{INFO_FOLDER}", container_path=_info_folder(pool))
    topology = MountEdit(host_path=f"{style.host_root}/{TOPOLOGY_DIR}", container_path=f"/{TOPOLOGY_DIR}")
    return (info, topology) if virtual_topology else (info,)


def _environment(pool: Pool, style: Style) -> dict[str, str]:
    """No variable can name HCAs, as they are chosen later; it can name the file that does."""
    return {NCCL_CONFIG_VARIABLE: f"{_info_folder(pool)}/{NCCL_CONFIG_FILE}"} if style.nccl_config else {}


def _info_folder(pool: Pool) -> str:
    return f"{CONTAINER_INFO}/{pool.name}"


def _plain(name: str, style: Style) -> DeviceEdit:
    path = f"{CONTAINER_DEVICES}/{name}"
    return DeviceEdit(host_path=f"{style.host_root}{path}", container_path=path)


def _numbers(node: DeviceNode) -> tuple[str, int, int]:
    return (node.name, node.major, node.minor)
