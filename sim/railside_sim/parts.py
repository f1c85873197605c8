"""What a machine is made of, as a manifest says it: values between the text and the tree.

It answers for the shape of these values. It must not read or write anything, and must not judge whether
a machine makes sense: odd machines are wanted.
"""

import msgspec

from railside_proto.machine import LinkLayer, PortState


class NumaPart(msgspec.Struct, frozen=True, kw_only=True):
    """A NUMA node. ``cpus`` is in the kernel's list form and empty for a node of memory alone."""

    number: int
    cpus: str
    distances: tuple[int, ...]
    memory_kb: int


class FunctionPart(msgspec.Struct, frozen=True, kw_only=True):
    """A PCI function and the chain above it."""

    path: tuple[str, ...]
    """The host bridge (``pci0000:15``), every bridge's address, and the function's own address."""
    numa: int
    """-1 where the firmware names no node."""
    vendor: str
    device: str
    pci_class: str
    """Six hex digits with ``0x``, as sysfs prints them."""
    driver: str = ""
    """Empty where none is bound."""
    physfn: str = ""
    """Address of the physical function, for a virtual one."""
    told: tuple[str, ...] = ()
    """NUMA node and switches as virtualTopology.xml tells them; empty where those are ``numa`` and ``path``."""

    @property
    def address(self) -> str:
        """The function's own PCI address."""
        return self.path[-1]


class GpuPart(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU. Without ``uuid`` no driver says anything under /proc."""

    function: FunctionPart
    model: str
    uuid: str
    minor: int


class PortPart(msgspec.Struct, frozen=True, kw_only=True):
    """One port of an RDMA device, ``phys`` and ``rate`` in the kernel's words."""

    number: int
    link: LinkLayer
    state: PortState
    phys: str
    rate: str
    lid: int
    sm_lid: int
    umad: int | None
    """Number of its umadN (and, for InfiniBand, issmN); None where the kernel made none."""


class HcaPart(msgspec.Struct, frozen=True, kw_only=True):
    """An RDMA device. ``function`` is None for software devices, which hang under ``virtual``."""

    function: FunctionPart | None
    name: str
    uverbs: int | None
    """Number of its uverbsN; None where ib_uverbs is not loaded."""
    guid: str
    sys_image_guid: str
    firmware: str
    board: str
    model: str
    """``hca_type``; firmware, board and model are files only where they are not empty."""
    ports: tuple[PortPart, ...]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A whole machine, every list in the order of its lines."""

    origin: str
    """Where it was read, for messages."""
    numa: tuple[NumaPart, ...] = ()
    gpus: tuple[GpuPart, ...] = ()
    hcas: tuple[HcaPart, ...] = ()
    others: tuple[FunctionPart, ...] = ()
    rdma_cm: tuple[int, int] | None = None
    netns_exclusive: bool = False
    topology: bool = False
    files: tuple[tuple[str, str], ...] = ()
    """Path below the root and content, written after all else."""
    links: tuple[tuple[str, str], ...] = ()
    """Path below the root and the link's text."""
    without: tuple[str, ...] = ()
    """Paths taken away at the very end."""

    @property
    def functions(self) -> tuple[FunctionPart, ...]:
        """Every PCI function that is not a bridge."""
        hcas = tuple(hca.function for hca in self.hcas if hca.function is not None)
        return (*(gpu.function for gpu in self.gpus), *hcas, *self.others)
