"""What is offered under one resource name: the pool, its mode, and the seats that the kubelet deals.

It must not know how the kubelet is spoken to, nor which HCA a seat means at a given moment.
"""

import enum

import msgspec

from railside_proto.machine import LinkLayer
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
