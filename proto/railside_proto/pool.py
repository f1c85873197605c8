"""What is offered under one resource name: the pool, its mode, and the seats that the kubelet deals.

It must not know how the kubelet is spoken to, nor which HCA a seat means at a given moment.
"""

import enum
from collections.abc import Sequence

import msgspec

from railside_proto.machine import LinkLayer, RdmaDevice
from railside_proto.names import RESOURCE


class Mode(enum.StrEnum):
    """How many containers an HCA serves at a time, in the words of the node's label."""

    IB_SHARED = "ib-shared"
    """One."""
    IB_SHARED_MULTI = "ib-shared-multi"
    """As many as the pool's share."""


class Functions(enum.StrEnum):
    """Which PCI functions of a card are offered."""

    AUTO = "auto"
    """Physical ones, and virtual ones whose physical one is not to be seen, as in a virtual machine."""
    PHYSICAL = "physical"
    VIRTUAL = "virtual"
    ALL = "all"


class Selector(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which RDMA devices stand behind a pool."""

    link_layer: LinkLayer = LinkLayer.INFINIBAND
    functions: Functions = Functions.AUTO
    software: bool = False
    """Whether devices without a PCI function are offered, known by their node GUID."""


def selects(selector: Selector, device: RdmaDevice) -> bool:
    """Whether ``selector`` takes ``device``: one port of its link layer is enough."""
    if selector.link_layer not in {port.link_layer for port in device.ports}:
        return False
    return selector.software if device.software else takes_function(selector.functions, device)


def takes_function(functions: Functions, device: RdmaDevice) -> bool:
    """Whether ``functions`` are of the kind of ``device``, whatever it speaks."""
    match functions:
        case Functions.AUTO:
            return not device.parent_seen
        case Functions.PHYSICAL:
            return device.parent is None
        case Functions.VIRTUAL:
            return device.parent is not None
        case Functions.ALL:
            return True


class Pool(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One resource name and what stands behind it. A node has one pool unless told otherwise."""

    resource: str = RESOURCE
    selector: Selector = Selector()
    mode: Mode = Mode.IB_SHARED
    share: int = 1
    """How many containers one HCA may serve at a time; 1 in ib-shared."""

    @property
    def name(self) -> str:
        """The resource's last word, fit for file names: ``infiniband-rdma``."""
        return self.resource.rpartition("/")[2]


def pool_of(device: RdmaDevice, pools: Sequence[Pool]) -> Pool | None:
    """The pool that ``device`` belongs to: the first whose selector takes it; None where none does.

    Two selectors may well take the same device. It must not be offered twice, so the order of the pools decides.
    """
    return next((pool for pool in pools if selects(pool.selector, device)), None)


class Seat(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the kubelet deals: a place at an HCA of a NUMA node; which one is said when the container starts."""

    id: str
    numa_nodes: tuple[int, ...] = ()
    """NUMA nodes of the kubelet's hint; empty for a bare seat, which fits everywhere."""


class Container(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A container's seats and the HCAs that they mean since its last start."""

    seats: tuple[str, ...]
    hcas: tuple[str, ...]
    """PCI addresses, in the order of the seats."""
