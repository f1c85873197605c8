"""Gives what was read a meaning: a RawMachine becomes a Machine, every device left out with its reason.

It must not read anything, and must not fail on anything read: what cannot be understood is left out and said.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from railside_agent.gpus import gpus
from railside_agent.kernel_text import natural, netns_mode, pci_address
from railside_agent.node_table import NodeTable
from railside_agent.places import Places, numa_nodes
from railside_agent.raw_machine import RawFunction, RawMachine
from railside_agent.rdma_devices import functions_taken, parent_of, rdma_devices
from railside_agent.virtual_topology import TopologySource
from railside_proto.machine import Excluded, Hca, LinkLayer, Machine, PciAddress, RdmaDevice, by_address
from railside_proto.pool import Selector, selects, takes_function
from railside_proto.reasons import Code, Reason, reason

_DEFAULT: Final = (Selector(),)
_INFINIBAND_CLASS: Final = "0x0207"


def discover(
    raw: RawMachine,
    selectors: Sequence[Selector] = _DEFAULT,
    *,
    topology: TopologySource = TopologySource.AUTO,
) -> Machine:
    """The machine that ``raw`` shows. Joins are exact, on ``ibdev`` and ``device``, never on numbers.

    Its HCAs are all that any of ``selectors`` takes; which pool one belongs to is the first whose selector takes
    it (``Pool.takes``). ``topology`` says whether virtualTopology.xml refines paths.
    """
    nodes = numa_nodes(raw.numa_nodes)
    places = Places(raw, nodes, topology)
    table = NodeTable(raw)
    known, unknown = rdma_devices(raw, places, selectors)
    looked_at = [_hca(device, selectors, table) for device in known]
    hcas, twins = _one_each([one for one in looked_at if isinstance(one, Hca)])
    refused = [one for one in looked_at if isinstance(one, Excluded)]
    return Machine(
        numa_nodes=nodes,
        hcas=hcas,
        gpus=gpus(raw, places),
        excluded=tuple(
            sorted((*unknown, *refused, *twins, *_without_device(raw)), key=lambda one: natural(one.name))
        ),
        rdma_cm=table.rdma_cm(),
        virtual_topology=raw.virtual_topology,
        topology_problem=places.problem,
        netns_mode=netns_mode(raw.netns_mode),
    )


def _hca(device: RdmaDevice, selectors: Sequence[Selector], table: NodeTable) -> Hca | Excluded:
    uverbs = _refusal(device, selectors) or table.uverbs(device.name)
    if isinstance(uverbs, Reason):
        return Excluded(name=device.name, reason=uverbs, address=device.address)
    return Hca(**msgspec.structs.asdict(device), uverbs=uverbs, umads=table.umads(device.name))


def _refusal(device: RdmaDevice, selectors: Sequence[Selector]) -> Reason | None:
    """Why no selector takes a device, before asking whether it is complete."""
    if any(selects(selector, device) for selector in selectors):
        return None
    layers = {port.link_layer for port in device.ports}
    speaks = any(selector.link_layer in layers for selector in selectors)
    if not speaks and any(takes_function(selector.functions, device) for selector in selectors):
        return _link_refusal(device.name, layers, {selector.link_layer for selector in selectors})
    return _function_refusal(device)


def _function_refusal(device: RdmaDevice) -> Reason:
    if device.software:
        return reason(Code.NO_PCI_FUNCTION, device=device.name)
    if device.parent is None:
        return reason(Code.PHYSICAL_FUNCTION, device=device.name)
    return reason(Code.VIRTUAL_FUNCTION, device=device.name, parent=device.parent)


def _link_refusal(name: str, layers: set[LinkLayer], wanted: set[LinkLayer]) -> Reason:
    if not layers:
        return reason(Code.NO_PORTS, device=name)
    if layers == {LinkLayer.UNSPECIFIED}:
        return reason(Code.LINK_LAYER_UNKNOWN, device=name)
    if wanted == {LinkLayer.INFINIBAND}:
        return reason(Code.ETHERNET_LINK, device=name)
    found, offered = (", ".join(sorted(each)) for each in (layers, wanted))
    return reason(Code.LINK_LAYER_UNWANTED, device=name, found=found, wanted=offered)


def _one_each(found: Iterable[Hca]) -> tuple[tuple[Hca, ...], tuple[Excluded, ...]]:
    """One HCA for each address, sorted by it: of a function's RDMA devices the lowest name, as one is not two."""
    kept: dict[PciAddress, Hca] = {}
    twins: list[Excluded] = []
    for hca in sorted(found, key=lambda hca: (by_address(hca.address), natural(hca.name))):
        if hca.address in kept:
            why = reason(Code.SAME_FUNCTION, device=hca.name, other=kept[hca.address].name, address=hca.address)
            twins.append(Excluded(name=hca.name, reason=why, address=hca.address))
        else:
            kept[hca.address] = hca
    return tuple(kept.values()), tuple(twins)


def _without_device(raw: RawMachine) -> Iterator[Excluded]:
    """Functions that should be RDMA devices and are none: InfiniBand's class, and a device's virtual functions."""
    taken = functions_taken(raw)
    for function in raw.functions:
        address = pci_address(function.address)
        expected = (function.pci_class or "").startswith(_INFINIBAND_CLASS) or parent_of(function) in taken
        if expected and address not in taken:
            yield Excluded(name=address, reason=_why_no_device(function, address), address=address)


def _why_no_device(function: RawFunction, address: PciAddress) -> Reason:
    physical = parent_of(function)
    parent = f", a virtual one of {physical}," if physical is not None else ""
    if function.driver is None:
        return reason(Code.NO_DRIVER, address=address, parent=parent)
    return reason(Code.NO_RDMA_DEVICE, address=address, parent=parent, driver=ascii(function.driver)[1:-1])
