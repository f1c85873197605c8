"""What is offered under one resource name: the pool, its mode, and the seats that the kubelet deals.

It must not know how the kubelet is spoken to, nor which HCA a seat means at a given moment.
"""

import enum

import msgspec

from railside_proto.machine import LinkLayer, PathClass, PciAddress, RdmaDevice
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
    earlier: tuple[Selector, ...] = ()
    """Selectors of the pools before it: a device that two would take stands behind the first."""
    shares_per_hca: int = 16
    """How many containers one HCA may serve at a time in ib-shared-multi."""

    @property
    def name(self) -> str:
        """The resource's last word, fit for file names: ``infiniband-rdma``."""
        return self.resource.rpartition("/")[2]

    def takes(self, device: RdmaDevice) -> bool:
        """Whether ``device`` stands behind this pool."""
        return selects(self.selector, device) and not any(selects(one, device) for one in self.earlier)

    def share(self, mode: Mode | None) -> int:
        """How many containers one HCA may serve in ``mode``; none where no mode is chosen."""
        match mode:
            case None:
                return 0
            case Mode.IB_SHARED:
                return 1
            case Mode.IB_SHARED_MULTI:
                return self.shares_per_hca


class Seat(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the kubelet deals: a place at an HCA of a zone; which one is said when the container starts."""

    id: str
    numa_nodes: tuple[int, ...] = ()
    """NUMA nodes of the kubelet's hint; empty for a bare seat, which fits everywhere."""


class Pair(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A GPU of a container and the HCA of that container that serves it."""

    gpu: PciAddress
    hca: PciAddress
    path: PathClass


class Binding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A container's seats and the HCAs that they mean since its last start."""

    seats: tuple[str, ...]
    hcas: tuple[PciAddress, ...]
    """In the order of the seats."""
    pod: str | None = None
    """UID of the pod that the binding is locked to; None where the kubelet's checkpoint did not tell."""
    pairs: tuple[Pair, ...] = ()
    guids: tuple[str, ...] = ()
    """Node GUIDs of ``hcas``, in their order: another one at the same address is another card."""
