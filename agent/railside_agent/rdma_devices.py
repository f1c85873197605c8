"""Gives each RDMA device its identity and facts, or the reason why it can have none.

It must not decide what is offered, and must not read anything.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from railside_agent.kernel_text import (
    guid,
    integer,
    leading_number,
    link_layer,
    pci_address,
    phys_state,
    port_state,
    short,
)
from railside_agent.places import Places
from railside_agent.raw_machine import RawFunction, RawMachine, RawPort, RawPortState, RawRdmaDevice
from railside_proto.machine import GUID_PREFIX, Excluded, PciAddress, Port, RdmaDevice
from railside_proto.pool import Selector
from railside_proto.reasons import Code, Reason, reason

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,63}")
"""What may go into files, lists and terminals as it is; the kernel's own names and rdma-core's all are so."""


def rdma_devices(
    raw: RawMachine, places: Places, selectors: Sequence[Selector]
) -> tuple[tuple[RdmaDevice, ...], tuple[Excluded, ...]]:
    """The devices that can be told apart for good, and those that cannot."""
    identities = _Identities(raw, software=any(selector.software for selector in selectors))
    beside = functions_taken(raw)
    known: list[RdmaDevice] = []
    unknown: list[Excluded] = []
    for device in raw.rdma_devices:
        if not _NAME.fullmatch(device.name):
            shown = ascii(device.name)
            unknown.append(Excluded(name=shown, reason=reason(Code.ODD_NAME, device=shown)))
            continue
        address = identities.of(device)
        if isinstance(address, Reason):
            unknown.append(Excluded(name=device.name, reason=address))
        else:
            known.append(_device(device, address, places, beside))
    return tuple(known), tuple(unknown)


def functions_taken(raw: RawMachine) -> set[PciAddress]:
    """Addresses of the functions that have an RDMA device, whatever becomes of that."""
    return {pci_address(device.function) for device in raw.rdma_devices if device.function is not None}


def parent_of(function: RawFunction) -> PciAddress | None:
    """The physical function of a virtual one; None for one that is none."""
    return pci_address(function.physfn) if function.physfn is not None else None


class _Identities:
    """What each device is known by: the address of its function, or its node GUID where that is allowed."""

    def __init__(self, raw: RawMachine, *, software: bool) -> None:
        self._software = software
        self._guids = Counter(guid(device.node_guid) for device in raw.rdma_devices)

    def of(self, device: RawRdmaDevice) -> PciAddress | Reason:
        if device.function is not None:
            return pci_address(device.function)
        if not self._software:
            return reason(Code.NO_PCI_FUNCTION, device=device.name)
        own = guid(device.node_guid)
        if not own:
            return reason(Code.NO_GUID, device=device.name, found=short(device.node_guid) or "none")
        if self._guids[own] > 1:
            return reason(Code.GUID_NOT_UNIQUE, device=device.name, guid=own)
        return PciAddress(f"{GUID_PREFIX}{own}")


def _device(device: RawRdmaDevice, address: PciAddress, places: Places, beside: set[PciAddress]) -> RdmaDevice:
    place = places.find(address)
    function = places.function(address)
    parent = parent_of(function) if function is not None else None
    return RdmaDevice(
        address=address,
        path=place.path,
        numa_node=place.numa_node,
        told_by_file=place.told_by_file,
        name=device.name,
        node_guid=short(device.node_guid),
        sys_image_guid=short(device.sys_image_guid),
        model=short(device.hca_type),
        firmware=short(device.fw_ver),
        board=short(device.board_id),
        parent=parent,
        parent_seen=parent is not None and (parent in beside or places.function(parent) is not None),
        ports=_ports(device),
        silent=device.port_states is None,
    )


def _ports(device: RawRdmaDevice) -> tuple[Port, ...]:
    states = {state.name: state for state in device.port_states or ()}
    found = [_port(port, states.get(port.name)) for port in device.ports]
    return tuple(sorted((port for port in found if port is not None), key=lambda port: port.number))


def _port(raw: RawPort, state: RawPortState | None) -> Port | None:
    number = integer(raw.name)
    if number is None:
        return None
    told = state or RawPortState(name=raw.name, state=None)
    return Port(
        number=number,
        link_layer=link_layer(raw.link_layer),
        state=port_state(told.state),
        phys_state=phys_state(told.phys_state),
        rate_gbps=leading_number(told.rate),
        lid=integer(told.lid) or 0,
        sm_lid=integer(told.sm_lid) or 0,
    )
