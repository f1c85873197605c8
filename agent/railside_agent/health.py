"""Says whether an HCA is sound at one moment. It must not remember anything."""

from railside_proto.machine import Hca, LinkLayer, Machine, NetnsMode, PciAddress, PortState
from railside_proto.reasons import Code, Reason, reason


def illness(hca: Hca, link_layer: LinkLayer = LinkLayer.INFINIBAND) -> Reason | None:
    """Why ``hca`` is not sound; None when it is: one active port of ``link_layer`` is enough."""
    if hca.silent:
        return reason(Code.HCA_SILENT, device=hca.name)
    states = {port.number: port.state for port in hca.ports if port.link_layer is link_layer}
    if PortState.ACTIVE in states.values():
        return None
    # INIT and ARMED are a working link that waits for the subnet manager, which Ethernet does not have.
    waiting = link_layer is LinkLayer.INFINIBAND and {PortState.INIT, PortState.ARMED} & set(states.values())
    code = Code.NO_SUBNET_MANAGER if waiting else Code.NO_ACTIVE_PORT
    detail = ", ".join(f"port {number} is {state}" for number, state in sorted(states.items()))
    return reason(code, device=hca.name, layer=link_layer, detail=detail)


def obstacle(machine: Machine) -> Reason | None:
    """Why no HCA of ``machine`` is of use to a container, however sound it is."""
    return reason(Code.NETNS_EXCLUSIVE) if machine.netns_mode is NetnsMode.EXCLUSIVE else None


def sound_hca(address: PciAddress, machine: Machine, link_layer: LinkLayer) -> Hca | Reason:
    """The HCA at ``address``, or why it cannot be used: it is ill, left out, or not there."""
    hca = next((hca for hca in machine.hcas if hca.address == address), None)
    if hca is not None:
        return obstacle(machine) or illness(hca, link_layer) or hca
    left_out = next((one.reason for one in machine.excluded if one.address == address), None)
    return left_out or reason(Code.HCA_GONE, address=address)
