"""The record of one node: what its agent publishes as an RDMANode, and what the extender decides on.

It answers for the shape of the object's status, as JSON has it: what is as by default is left out there. It must
not decide anything, nor hold a time: the record is written when something changed, and whether its agent is alive
is the agent pod's affair.
"""

import enum

import msgspec

from railside_proto.machine import Function, NumaNode, PathClass, PciAddress
from railside_proto.pool import Mode
from railside_proto.reasons import Code


class TopologyPolicy(enum.StrEnum):
    """The kubelet's ``topologyManagerPolicy``."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class TopologyScope(enum.StrEnum):
    """The kubelet's ``topologyManagerScope``: whose devices are aligned with each other."""

    CONTAINER = "container"
    POD = "pod"


class FrontEnd(enum.StrEnum):
    """How the kubelet is served; one kind on a node."""

    DEVICE_PLUGIN = "device-plugin"
    DRA = "dra"


class Source(enum.StrEnum):
    """Who told the kubelet's facts."""

    CONFIGZ = "configz"
    """The kubelet itself."""
    UNKNOWN = "unknown"


class KubeletFacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the kubelet admits pods; every field is None where nobody told."""

    source: Source = Source.UNKNOWN
    detail: str = ""
    """Why the kubelet told nothing."""
    topology_policy: TopologyPolicy | None = None
    topology_scope: TopologyScope | None = None
    topology_options: tuple[str, ...] = ()
    """``topologyManagerPolicyOptions`` as ``name=value``, sorted."""
    cpu_policy: str | None = None
    cpu_options: tuple[str, ...] = ()
    memory_policy: str | None = None


class PoolRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One resource that the agent offers."""

    resource: str
    mode: Mode | None = None
    """None: nobody chose one, and nothing new is offered."""
    share: int
    """How many containers one HCA may serve."""
    front_end: FrontEnd = FrontEnd.DEVICE_PLUGIN
    registered: bool
    """Whether the kubelet knows the resource by this agent."""
    hcas: int
    """How many HCAs stand behind it."""
    free: int
    """How many more containers can be served."""


class Count(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How many ids of a resource the kubelet counts on one set of NUMA nodes."""

    resource: str
    numa_nodes: tuple[int, ...]
    """The nodes of each of these ids' hints; empty for ids that carry none."""
    listed: int
    """All of them, the ill and the held, too: by these the kubelet says how wide a request is."""
    held: int
    free: int
    """Well, and in nobody's hands: by these it says where there is room."""


class NumaRecord(NumaNode, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One NUMA node with CPUs."""

    allocatable_cpus: int | None = None
    """CPUs that a static CPU manager may give away for good; None where it is not static, or does not tell."""
    exclusive_cpus: int = 0
    """Those that containers have for themselves."""


class DeviceKind(enum.StrEnum):
    """What a device is."""

    HCA = "hca"
    GPU = "gpu"


class DeviceRecord(Function, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An HCA that is offered, or a GPU; ``path`` and ``numa_node`` say where it sits."""

    kind: DeviceKind
    numa_node: int | None = None
    resource: str = ""
    """Empty for a GPU that no plugin offers."""
    name: str = ""
    """As the kernel calls an HCA now, and the kubelet's GPU plugin a GPU: by its UUID."""
    kubelet_numa_nodes: tuple[int, ...] = ()
    """Where the kubelet believes it to be, which may be elsewhere than it sits."""
    free: int
    """How many more containers may have it; 0 for a GPU that its plugin does not call healthy."""
    held: int
    """How many containers have it; those that share a seat count once."""
    reason: Code | None = None
    """Why it must not come into new hands; None for one that is well."""


class PairRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A GPU of a container, the HCA that serves it, and how far that is."""

    gpu: PciAddress
    hca: PciAddress
    path: str
    """A PathClass by name."""

    @property
    def path_class(self) -> PathClass:
        """``path`` as a class. Raises KeyError for what is none."""
        return PathClass[self.path]


class HolderRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What one container holds."""

    pod: str
    """The pod's UID as the API server has it, as far as that is known."""
    container: str
    """Empty for all containers that the kubelet has forgotten, and that run on."""
    held: tuple[Count, ...] = ()
    """By resource and NUMA nodes: ``listed`` and ``held`` are how many it holds, ``free`` is 0."""
    hcas: tuple[PciAddress, ...] = ()
    """Those that its seats mean; empty before its first start."""
    gpus: tuple[PciAddress, ...] = ()
    """Those that its ids and claims can be joined with."""
    pairs: tuple[PairRecord, ...] = ()


class PodHolding(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a pod gives back when it ends: ids that several of its containers share count once."""

    pod: str
    """The pod's UID."""
    held: tuple[Count, ...]
    """As in HolderRecord."""


class ExcludedRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An RDMA device that is not offered."""

    name: str
    code: Code
    sentence: str


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The status of an RDMANode. All lists are sorted by their keys."""

    node_uid: str
    boot_id: str
    agent_uid: str = ""
    """The agent pod's UID; empty outside a pod."""
    version: str
    """The agent's."""
    sequence: int = 0
    """Grows with each write of one boot."""
    kubelet: KubeletFacts = KubeletFacts()
    pools: tuple[PoolRecord, ...] = ()
    numa_nodes: tuple[NumaRecord, ...] = ()
    counts: tuple[Count, ...] = ()
    devices: tuple[DeviceRecord, ...] = ()
    holders: tuple[HolderRecord, ...] = ()
    pods: tuple[PodHolding, ...] = ()
    excluded: tuple[ExcludedRecord, ...] = ()
