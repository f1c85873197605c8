"""Why something is refused, left out or ill: the closed catalogue of codes and the sentences people read.

A code stands in metric labels and records, so its text never changes; the sentence may improve. It must not
decide anything: the places that decide pick a code and fill in the facts.
"""

import enum

import msgspec


class Code(enum.StrEnum):
    """The catalogue. A new situation gets a new code, never a second meaning for an old one."""

    ETHERNET_LINK = "EthernetLink"
    LINK_LAYER_UNKNOWN = "LinkLayerUnknown"
    LINK_LAYER_UNWANTED = "LinkLayerUnwanted"
    NO_PORTS = "NoPorts"
    ODD_NAME = "OddName"
    NO_PCI_FUNCTION = "NoPciFunction"
    NO_GUID = "NoGuid"
    GUID_NOT_UNIQUE = "GuidNotUnique"
    VIRTUAL_FUNCTION = "VirtualFunction"
    PHYSICAL_FUNCTION = "PhysicalFunction"
    NO_DRIVER = "NoDriver"
    NO_RDMA_DEVICE = "NoRdmaDevice"
    SAME_FUNCTION = "SameFunction"
    UVERBS_MISSING = "UverbsMissing"
    UVERBS_NUMBERS_DIFFER = "UverbsNumbersDiffer"
    UVERBS_NUMBERS_SHARED = "UverbsNumbersShared"
    HCA_SILENT = "HcaSilent"
    NO_ACTIVE_PORT = "NoActivePort"
    NO_SUBNET_MANAGER = "NoSubnetManager"
    NO_RDMA_DEVICES = "NoRdmaDevices"
    NOTHING_TO_OFFER = "NothingToOffer"
    NETNS_EXCLUSIVE = "NetnsExclusive"
    VIRTUAL_TOPOLOGY_UNREADABLE = "VirtualTopologyUnreadable"
    SEAT_UNKNOWN = "SeatUnknown"
    SEAT_FOREIGN = "SeatForeign"
    HCA_GONE = "HcaGone"
    HCA_NOT_SOUND = "HcaNotSound"
    RECOVERING = "Recovering"
    SEAT_WITHDRAWN = "SeatWithdrawn"
    NO_FREE_HCA = "NoFreeHca"
    LOCALITY_NOT_MET = "LocalityNotMet"
    FARTHER_THAN_NEEDED = "FartherThanNeeded"
    DEALT_TWICE = "DealtTwice"
    NODES_CHANGED = "NodesChanged"
    RESTART_NEEDED = "RestartNeeded"
    RESOURCES_CONFLICT = "ResourcesConflict"
    LOCALITY_UNKNOWN = "LocalityUnknown"
    DEALT_WHILE_HELD = "DealtWhileHeld"
    HOLDERS_DIFFER = "HoldersDiffer"
    HOLDERS_NOT_TOLD = "HoldersNotTold"
    ALLOCATABLE_NOT_TOLD = "AllocatableNotTold"
    PREFERENCE_NOT_ASKED = "PreferenceNotAsked"
    KUBELET_CONFIG_NOT_TOLD = "KubeletConfigNotTold"
    LOOK_FAILED = "LookFailed"
    DEVICE_DIRECTORY_FAILED = "DeviceDirectoryFailed"
    NO_MODE_LABEL = "NoModeLabel"
    MODE_LABEL_UNKNOWN = "ModeLabelUnknown"
    NODE_NOT_SEEN = "NodeNotSeen"
    NO_RECORD = "NoRecord"
    RECORD_ABSURD = "RecordAbsurd"
    RECORD_OF_ANOTHER_NODE = "RecordOfAnotherNode"
    POLICY_NOT_TOLD = "PolicyNotTold"
    AGENT_NOT_READY = "AgentNotReady"
    NOT_REGISTERED = "NotRegistered"
    WIDTHS_DIFFER = "WidthsDiffer"
    NEVER_ALIGNED = "NeverAligned"
    NOT_ALIGNED_NOW = "NotAlignedNow"
    PODS_ON_THEIR_WAY = "PodsOnTheirWay"
    CPUS_NOT_TOLD = "CpusNotTold"
    MEMORY_NOT_TOLD = "MemoryNotTold"
    INIT_CPUS = "InitCpus"
    TURNED_AWAY_BEFORE = "TurnedAwayBefore"
    POLICY_NEVER_ALIGNS = "PolicyNeverAligns"
    PCIE_WITHOUT_GPUS = "PcieWithoutGpus"
    PCIE_NEVER = "PcieNever"
    PCIE_NOT_NOW = "PcieNotNow"
    REQUEST_UNREADABLE = "RequestUnreadable"


_CATALOGUE: dict[Code, tuple[str, str]] = {
    Code.ETHERNET_LINK: (
        "{device} speaks Ethernet on every port; only InfiniBand is offered",
        "do nothing if this is a storage or management port; else set the port's LINK_TYPE to InfiniBand",
    ),
    Code.LINK_LAYER_UNKNOWN: (
        "{device} does not say which link layer its ports speak",
        "look at /sys/class/infiniband/{device}/ports/*/link_layer and at the driver's messages in dmesg",
    ),
    Code.LINK_LAYER_UNWANTED: (
        "{device} speaks {found}, and this node offers only {wanted}",
        "do nothing, unless you want to offer it: then add a pool with its link layer to the agent's settings",
    ),
    Code.NO_PORTS: (
        "{device} has no port that can be read",
        "look at /sys/class/infiniband/{device}/ports and at the driver's messages in dmesg",
    ),
    Code.ODD_NAME: (
        "{device} has a name that cannot be passed on safely",
        "rename the device to letters, digits, '.', '_' and '-' (rdma dev set NAME name NEW)",
    ),
    Code.NO_PCI_FUNCTION: (
        "{device} belongs to no PCI function, so nothing tells where it sits",
        "do nothing, unless you want to offer it: then set softwareDevices of its pool",
    ),
    Code.NO_GUID: (
        "{device} belongs to no PCI function and has no node GUID ({found}), so nothing tells which it is",
        "give the device a node GUID, or remove it (rdma link delete {device})",
    ),
    Code.GUID_NOT_UNIQUE: (
        "{device} belongs to no PCI function and shares its node GUID ({guid}) with another device",
        "keep one software RDMA device for each network device (rdma link delete {device})",
    ),
    Code.VIRTUAL_FUNCTION: (
        "{device} is a virtual function of {parent}; physical functions are what is offered here",
        "do nothing, unless virtual functions are what you want to give away: then set the pool's functions",
    ),
    Code.PHYSICAL_FUNCTION: (
        "{device} is a physical function; virtual ones are what is offered here",
        "do nothing, unless physical functions are what you want to give away: then set the pool's functions",
    ),
    Code.NO_DRIVER: (
        "the function at {address}{parent} has no driver, so it is no RDMA device",
        "do nothing if you use it for something else; else bind its driver (mlx5_core)",
    ),
    Code.NO_RDMA_DEVICE: (
        "the function at {address}{parent} has the driver {driver}, but no RDMA device is to be seen for it",
        "load mlx5_ib; if the network namespaces' mode is exclusive, see where the device is (rdma dev)",
    ),
    Code.SAME_FUNCTION: (
        "{device} sits on the same PCI function {address} as {other}, which is offered",
        "do nothing: one adapter is offered once",
    ),
    Code.UVERBS_MISSING: (
        "{device} has no usable device node: {detail}",
        "load ib_uverbs and see that udev made the node under /dev/infiniband",
    ),
    Code.UVERBS_NUMBERS_SHARED: (
        "{device} and another device both show the numbers {numbers}, for {node}: one is being renumbered",
        "wait for the next look; if it stays so, reload the driver",
    ),
    Code.UVERBS_NUMBERS_DIFFER: (
        "{device}: /dev/infiniband/{node} has numbers {found}, but the kernel says {expected}",
        "remove the stale node and let udev make it anew (udevadm trigger -s infiniband_verbs)",
    ),
    Code.HCA_SILENT: (
        "{device} does not answer when its ports are asked",
        "look at dmesg for a card whose firmware resets or hangs; it is used again as soon as it answers",
    ),
    Code.NO_ACTIVE_PORT: (
        "{device} has no active {layer} port ({detail})",
        "look at the cable, the switch port and the subnet manager",
    ),
    Code.NO_SUBNET_MANAGER: (
        "{device} has a link but no subnet manager made its port active ({detail})",
        "start the fabric's subnet manager, or look why it does not see this port",
    ),
    Code.NO_RDMA_DEVICES: (
        "this kernel shows no RDMA devices (sys/class/infiniband is empty or missing)",
        "if this machine has HCAs, load their driver (mlx5_ib) and ib_uverbs",
    ),
    Code.NOTHING_TO_OFFER: (
        "none of this node's {count} RDMA devices can be offered: {devices}",
        "see the reason of each device in /status",
    ),
    Code.NETNS_EXCLUSIVE: (
        "RDMA devices are seen by one network namespace alone here (mode exclusive), so pods could not use them",
        "run rdma system set netns shared while no pod runs; netns_mode=1 for ib_core in modprobe.d keeps it so",
    ),
    Code.VIRTUAL_TOPOLOGY_UNREADABLE: (
        "virtualTopology.xml tells nothing: {detail}",
        "do nothing where the kernel shows the real tree; else ask for the file of this machine type",
    ),
    Code.SEAT_UNKNOWN: (
        "seat {seat} is not one of this node's",
        "delete the pod; its ids were dealt before this agent knew them",
    ),
    Code.SEAT_FOREIGN: (
        "id {seat} was dealt by another plugin or an older agent, and stands for no HCA of ours",
        "delete the pod that holds it; the id stays listed so that the kubelet survives",
    ),
    Code.HCA_GONE: (
        "the HCA at {address} is not there any more",
        "look at dmesg for the device; containers that hold it must be restarted when it is back",
    ),
    Code.LOOK_FAILED: (
        "the machine could not be looked at: {detail}",
        "the container starts by itself as soon as the kernel answers; look at dmesg for a hanging device",
    ),
    Code.RECOVERING: (
        "it was ill a moment ago and is offered again when it has been well for {seconds} s",
        "do nothing yet; if it comes and goes, look at the cable and at the port's error counters",
    ),
    Code.SEAT_WITHDRAWN: (
        "seat {seat} is not offered any more; it stays listed until the kubelet has let go of it",
        "do nothing: it leaves the list by itself",
    ),
    Code.NO_FREE_HCA: (
        "no sound HCA of zone {zone} is free for {count} of the container's seats: {detail}",
        "the container starts by itself as soon as an HCA is sound and free again",
    ),
    Code.LOCALITY_NOT_MET: (
        "the pod insists on {wanted}, and GPU {gpu} would be served at {path}",
        "delete the pod so that it is placed anew, or take off its annotation railside.dev/locality-enforce",
    ),
    Code.FARTHER_THAN_NEEDED: (
        "GPU {gpu} is served at {path}; this node has an HCA at {best} that is {obstacle}",
        "do nothing if it is fast enough; else let the pod be placed anew when the node is emptier",
    ),
    Code.DEALT_TWICE: (
        "the kubelet dealt seat {seat} to pods {pods} at the same time",
        "delete one of the pods; the kubelet freed ids too early, as another program listed its pod resources",
    ),
    Code.RESTART_NEEDED: (
        "the HCA at {address} has gone, or is called or numbered otherwise, while the pod has it open",
        "restart the pod's container: it can reach the HCA only after a start",
    ),
    Code.RESOURCES_CONFLICT: (
        "the pod uses {resources} together with an HCA, which the platform does not support",
        "ask for whole GPUs, or for no HCA",
    ),
    Code.LOCALITY_UNKNOWN: (
        "the pod's annotation {annotation} says {value!r}, which is none of {allowed}: it asks for nothing",
        "correct the annotation in the pod's template",
    ),
    Code.HOLDERS_DIFFER: (
        "the kubelet says that {container} holds {told}, and its checkpoint says {recorded}",
        "do nothing yet; if it stays so, restart the kubelet, which reads its checkpoint anew",
    ),
    Code.HOLDERS_NOT_TOLD: (
        "this kubelet does not say who holds what ({detail}), so its checkpoint is believed unchecked",
        "do nothing: what is offered and given rests on the checkpoint; Kubernetes 1.20 and later say it",
    ),
    Code.ALLOCATABLE_NOT_TOLD: (
        "this kubelet does not say what it could give ({detail}), so /status cannot show its count",
        "do nothing: nothing that is offered or given rests on it; Kubernetes 1.23 and later say it",
    ),
    Code.PREFERENCE_NOT_ASKED: (
        "this kubelet deals seats of its own choice and never asks which, so wide pods find fewer whole zones",
        "do nothing: which HCA a container gets is decided at its start; Kubernetes 1.19 and later ask",
    ),
    Code.KUBELET_CONFIG_NOT_TOLD: (
        "how this kubelet admits pods is not known: {detail}",
        "do nothing where pods are not placed by the extender; else see docs/record.md, the kubelet's policy",
    ),
    Code.DEALT_WHILE_HELD: (
        "the kubelet dealt seat {seat} anew while pod {pod} still has it",
        "do nothing if that pod was ending; else delete one of the two pods",
    ),
    Code.NODES_CHANGED: (
        "the HCA of seat {seat} is called or numbered otherwise than when the container was allocated ({detail})",
        "delete the pod: its device nodes were fixed when it was admitted (binding: allocate)",
    ),
    Code.HCA_NOT_SOUND: (
        "the HCA of seat {seat} ({device}) is not sound: {detail}",
        "the container starts by itself as soon as the HCA is sound again",
    ),
    Code.DEVICE_DIRECTORY_FAILED: (
        "the device nodes of {device} could not be laid out: {detail}",
        "see that the agent may write below /run/railside and has the capability MKNOD",
    ),
    Code.NO_MODE_LABEL: (
        "the node has no label {label}, so nothing new is offered",
        "label the node {label}=ib-shared (one container an HCA) or {label}=ib-shared-multi (several)",
    ),
    Code.MODE_LABEL_UNKNOWN: (
        "the node's label {label} says {value!r}, which is no mode; {instead}",
        "set the label {label} to ib-shared or ib-shared-multi",
    ),
    Code.NODE_NOT_SEEN: (
        "the node's label {label} cannot be read ({detail}); {instead}",
        "see that the agent reaches the API server and may list and watch nodes, or set the mode by setting",
    ),
    Code.NO_RECORD: (
        "no agent has published what the node has",
        "see that the agent runs there and publishes (kubectl get rdmanodes)",
    ),
    Code.RECORD_ABSURD: (
        "the node's record makes no sense",
        "look at the record (kubectl get rdmanode NAME -o yaml), and update the agent or the extender",
    ),
    Code.RECORD_OF_ANOTHER_NODE: (
        "the record is of another node of that name, or of an earlier boot",
        "wait until the node's agent has started; if it stays so, restart the agent",
    ),
    Code.POLICY_NOT_TOLD: (
        "nobody knows the kubelet's topology manager policy",
        "let the agent read the kubelet's configuration (nodes/configz, its certificate)",
    ),
    Code.AGENT_NOT_READY: (
        "the node's agent has not been ready for a while, so nobody knows what is free there",
        "look at the agent's pod and its /readyz",
    ),
    Code.NOT_REGISTERED: (
        "the kubelet does not know {resource} by the agent just now",
        "look at the agent's /status: the registration and its reason",
    ),
    Code.WIDTHS_DIFFER: (
        "{asked} take different numbers of NUMA nodes there, which policy {policy} never admits",
        "ask for as many HCAs as span the same NUMA nodes as the GPUs, or use topologyManagerPolicy best-effort",
    ),
    Code.NEVER_ALIGNED: (
        "{asked} do not fit the node's NUMA nodes under policy {policy}, however empty it is",
        "ask for less, or use topologyManagerPolicy best-effort",
    ),
    Code.NOT_ALIGNED_NOW: (
        "no NUMA nodes have {asked} free together now",
        "wait until a pod ends there, or ask for less",
    ),
    Code.PODS_ON_THEIR_WAY: (
        "other pods are on their way there, and may come first to where {asked} fit",
        "do nothing: it is looked at again as soon as they have arrived",
    ),
    Code.CPUS_NOT_TOLD: (
        "the kubelet gives CPUs away for good there, and nobody knows how many are free",
        "see that the agent reads the kubelet's pod resources",
    ),
    Code.MEMORY_NOT_TOLD: (
        "the kubelet gives memory of NUMA nodes away for good there, and nobody knows how much is free",
        "use memoryManagerPolicy None on the node, or a pod that is not Guaranteed",
    ),
    Code.INIT_CPUS: (
        "the pod's init containers take CPUs of their own there, and nobody knows which of them are used again",
        "ask for fractions of CPUs in the init containers, or use cpuManagerPolicy none on the node",
    ),
    Code.TURNED_AWAY_BEFORE: (
        "the kubelet turned such a pod away there, and the node has not changed since",
        "look at that pod's message; a pod of another scheduler may have come first",
    ),
    Code.POLICY_NEVER_ALIGNS: (
        "the pod insists on {wanted}, and the kubelet there does not align (topologyManagerPolicy none)",
        "set topologyManagerPolicy best-effort on the node, or take the annotation off",
    ),
    Code.PCIE_WITHOUT_GPUS: (
        "the pod insists on HCAs beside its GPUs, and asks for no GPU in a container with HCAs",
        "use locality required-numa, or ask for GPUs and HCAs in one container",
    ),
    Code.PCIE_NEVER: (
        "not every GPU that the pod may be dealt has an HCA of its own on its switch there",
        "ask for fewer at a time, or use locality required-numa or preferred",
    ),
    Code.PCIE_NOT_NOW: (
        "not every GPU that the pod may be dealt there has a free HCA on its switch now",
        "wait until a pod ends there, or use locality required-numa or preferred",
    ),
    Code.REQUEST_UNREADABLE: (
        "what the pod asks for cannot be read: {detail}",
        "correct the pod's resources",
    ),
}


class Reason(msgspec.Struct, frozen=True):
    """One entry of the catalogue with its facts filled in."""

    code: Code
    sentence: str
    remedy: str


def reason(code: Code, **facts: str) -> Reason:
    """The entry of ``code`` with ``facts`` filled in. A missing fact is a bug and raises KeyError."""
    sentence, remedy = _CATALOGUE[code]
    return Reason(code=code, sentence=sentence.format_map(facts), remedy=remedy.format_map(facts))
