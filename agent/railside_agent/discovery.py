"""Gives what was read a meaning: a RawMachine becomes a Machine, every device left out with its reason.

It must not read anything, and must not fail on anything read: what cannot be understood is left out and said.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from railside_agent.kernel_text import device_numbers, integer, leading_number, link_layer, pci_address, port_state
from railside_agent.raw_machine import (
    RawFunction,
    RawMachine,
    RawNumaNode,
    RawPort,
    RawPortState,
    RawRdmaDevice,
    RawUverbs,
)
from railside_proto.machine import (
    DeviceNode,
    Excluded,
    Gpu,
    Hca,
    LinkLayer,
    Machine,
    NumaNode,
    PciAddress,
    Port,
)
from railside_proto.pool import Selector
from railside_proto.reasons import Code, Reason, reason

_GPU_VENDORS: Final = {"0x10de": "nvidia", "0x1002": "amd"}
_GPU_CLASSES: Final = {
    "nvidia": ("0x0300", "0x0302"),  # display and 3D controllers; 0x0680 is an NVSwitch
    "amd": ("0x0300", "0x0380", "0x1200"),
}
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,63}")
"""What may go into files, lists and terminals as it is; the kernel's own names and rdma-core's all are so."""

_UVERBS: Final = re.compile(r"uverbs\d{1,7}")
_DRIVER_LINE: Final = re.compile(r"^(?P<key>[^:\n]+):[ \t]*(?P<value>[^\n]*)$", re.MULTILINE)


def discover(raw: RawMachine, selectors: Sequence[Selector] = (Selector(),)) -> Machine:
    """The machine that ``raw`` shows: HCAs that speak what one of ``selectors`` wants.

    Joins are exact, on ``ibdev`` and ``device``, never on numbers.
    """
    wanted = frozenset(one.link_layer for one in selectors)
    numa_nodes = _numa_nodes(raw.numa_nodes)
    places = _Places(raw.functions, numa_nodes)
    looked_at = [_hca(device, raw, places, wanted) for device in raw.rdma_devices]
    hcas, twins = _one_each([one for one in looked_at if isinstance(one, Hca)])
    return Machine(
        numa_nodes=numa_nodes,
        hcas=hcas,
        gpus=_gpus(raw, places),
        excluded=(*(one for one in looked_at if isinstance(one, Excluded)), *twins),
        rdma_cm=_rdma_cm(raw),
        virtual_topology=raw.virtual_topology,
    )


class _Places:
    """Where functions sit, by address in the kernel's spelling."""

    def __init__(self, functions: Iterable[RawFunction], numa_nodes: tuple[NumaNode, ...]) -> None:
        self._functions = {function.address: function for function in functions}
        self._known_nodes = {node.number for node in numa_nodes}

    def find(self, address: str) -> RawFunction:
        """The function at ``address``; one without facts where the tree does not list it."""
        return self._functions.get(address) or RawFunction(address=address, path=())

    def numa_node(self, function: RawFunction) -> int | None:
        """Its NUMA node, if the machine has that one: a hint for another node would bar the pod (kubelet)."""
        number = integer(function.numa_node)
        return number if number in self._known_nodes else None


def _hca(device: RawRdmaDevice, raw: RawMachine, places: _Places, wanted: frozenset[LinkLayer]) -> Hca | Excluded:
    if not _NAME.fullmatch(device.name):
        shown = ascii(device.name)
        return Excluded(name=shown, reason=reason(Code.ODD_NAME, device=shown))
    if device.function is None:
        return Excluded(name=device.name, reason=reason(Code.NO_PCI_FUNCTION, device=device.name))
    function = places.find(device.function)
    address = pci_address(device.function)
    states = {state.name: state for state in device.port_states or ()}
    found = (_port(port, states.get(port.name)) for port in device.ports)
    ports = tuple(port for port in found if port is not None)
    uverbs = _refusal(device, function, ports, wanted) or _uverbs_node(device, raw)
    if isinstance(uverbs, Reason):
        return Excluded(name=device.name, reason=uverbs, address=address)
    return Hca(
        address=address,
        path=function.path,
        numa_node=places.numa_node(function),
        name=device.name,
        node_guid=device.node_guid or "",
        model=device.hca_type or "",
        uverbs=uverbs,
        ports=ports,
    )


def _refusal(
    device: RawRdmaDevice, function: RawFunction, ports: tuple[Port, ...], wanted: frozenset[LinkLayer]
) -> Reason | None:
    """Why a device is no pool's, before asking whether it is complete."""
    if function.physfn is not None:
        return reason(Code.VIRTUAL_FUNCTION, device=device.name, parent=function.physfn)
    return _link_refusal(device.name, ports, wanted)


def _link_refusal(name: str, ports: tuple[Port, ...], wanted: frozenset[LinkLayer]) -> Reason | None:
    layers = {port.link_layer for port in ports}
    if not layers:
        return reason(Code.NO_PORTS, device=name)
    if layers & wanted:
        return None
    code = Code.ETHERNET_LINK if LinkLayer.ETHERNET in layers else Code.LINK_LAYER_UNKNOWN
    return reason(code, device=name)


def _uverbs_node(device: RawRdmaDevice, raw: RawMachine) -> DeviceNode | Reason:
    """The device node of an HCA, complete only when its numbers are those that the kernel says."""
    uverbs = (entry for entry in raw.uverbs if _UVERBS.fullmatch(entry.name))
    entry = next((entry for entry in uverbs if entry.ibdev == device.name), None)
    if entry is None:
        return _no_uverbs(device, "sys/class/infiniband_verbs has no entry for it")
    numbers = device_numbers(entry.dev)
    if numbers is None:
        return _no_uverbs(device, f"sys/class/infiniband_verbs/{entry.name}/dev cannot be read")
    if raw.device_nodes is None:
        return DeviceNode(name=entry.name, major=numbers[0], minor=numbers[1])
    return _checked_node(device, entry, numbers, raw.device_nodes)


def _checked_node(
    device: RawRdmaDevice, entry: RawUverbs, numbers: tuple[int, int], nodes: tuple[DeviceNode, ...]
) -> DeviceNode | Reason:
    node = next((node for node in nodes if node.name == entry.name), None)
    if node is None:
        return _no_uverbs(device, f"/dev/infiniband/{entry.name} is not there")
    if (node.major, node.minor) != numbers:
        return reason(
            Code.UVERBS_NUMBERS_DIFFER,
            device=device.name,
            node=entry.name,
            found=f"{node.major}:{node.minor}",
            expected=f"{numbers[0]}:{numbers[1]}",
        )
    return node


def _no_uverbs(device: RawRdmaDevice, detail: str) -> Reason:
    return reason(Code.UVERBS_MISSING, device=device.name, detail=detail)


def _one_each(found: list[Hca]) -> tuple[tuple[Hca, ...], tuple[Excluded, ...]]:
    """One HCA for each address, sorted by it. A function's further RDMA devices are left out: one is not two."""
    kept: dict[PciAddress, Hca] = {}
    twins: list[Excluded] = []
    for hca in sorted(found, key=lambda hca: (hca.address, hca.name)):
        if hca.address in kept:
            why = reason(Code.SAME_FUNCTION, device=hca.name, other=kept[hca.address].name, address=hca.address)
            twins.append(Excluded(name=hca.name, reason=why, address=hca.address))
        else:
            kept[hca.address] = hca
    return tuple(kept.values()), tuple(twins)


def _rdma_cm(raw: RawMachine) -> DeviceNode | None:
    """The connection manager's node, if its numbers are the kernel's; optional, as verbs work without it."""
    numbers = device_numbers(raw.rdma_cm_dev)
    nodes = (node for node in raw.device_nodes or () if node.name == "rdma_cm")
    return next((node for node in nodes if (node.major, node.minor) == numbers), None)


def _port(raw: RawPort, state: RawPortState | None) -> Port | None:
    number = integer(raw.name)
    if number is None:
        return None
    return Port(
        number=number,
        link_layer=link_layer(raw.link_layer),
        state=port_state(state.state if state else None),
        rate_gbps=leading_number(state.rate if state else None),
        lid=integer(state.lid if state else None) or 0,
    )


def _gpus(raw: RawMachine, places: _Places) -> tuple[Gpu, ...]:
    told = {pci_address(gpu.address): gpu.information for gpu in raw.driver_gpus}
    found = [_gpu(function, places, told.get(pci_address(function.address))) for function in raw.functions]
    return tuple(sorted((gpu for gpu in found if gpu is not None), key=lambda gpu: gpu.address))


def _gpu(function: RawFunction, places: _Places, information: str | None) -> Gpu | None:
    vendor = _GPU_VENDORS.get(function.vendor or "")
    if vendor is None or not (function.pci_class or "").startswith(_GPU_CLASSES[vendor]):
        return None
    facts = {line["key"].strip(): line["value"].strip() for line in _DRIVER_LINE.finditer(information or "")}
    return Gpu(
        address=pci_address(function.address),
        path=function.path,
        numa_node=places.numa_node(function),
        vendor=vendor,
        model=facts.get("Model", ""),
        uuid=facts.get("GPU UUID"),
    )


def _numa_nodes(raw: Iterable[RawNumaNode]) -> tuple[NumaNode, ...]:
    """Nodes with CPUs, by number: a GPU's memory is a node of its own and no place for a pod."""
    nodes = (
        NumaNode(
            number=int(node.name.removeprefix("node")),
            cpus=node.cpulist,
            distances=tuple(filter(None, map(integer, (node.distance or "").split()))),
        )
        for node in raw
        if node.cpulist
    )
    return tuple(sorted(nodes, key=lambda node: node.number))
