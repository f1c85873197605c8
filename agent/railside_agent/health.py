"""Says whether an HCA is sound at one moment. It must not remember anything."""

from railside_proto.machine import Hca, LinkLayer, Machine, PciAddress, PortState
from railside_proto.reasons import Code, Reason, reason


def illness(hca: Hca) -> Reason | None:
    """Why ``hca`` is not sound; None when it is: one active port is enough, an InfiniBand one if it has any."""
    layer = _layer(hca)
    states = {port.number: port.state for port in hca.ports if port.link_layer is layer}
    if PortState.ACTIVE in states.values():
        return None
    # INIT and ARMED are a working link that waits for the subnet manager, which Ethernet has not.
    waiting = layer is LinkLayer.INFINIBAND and {PortState.INIT, PortState.ARMED} & set(states.values())
    code = Code.NO_SUBNET_MANAGER if waiting else Code.NO_ACTIVE_PORT
    detail = ", ".join(f"port {number} is {state}" for number, state in sorted(states.items()))
    return reason(code, device=hca.name, layer=layer, detail=detail)


def _layer(hca: Hca) -> LinkLayer:
    """What an HCA is offered for: a pool of Ethernet devices takes those without an InfiniBand port."""
    layers = {port.link_layer for port in hca.ports}
    return LinkLayer.ETHERNET if layers == {LinkLayer.ETHERNET} else LinkLayer.INFINIBAND


def sound_hca(address: PciAddress, machine: Machine) -> Hca | Reason:
    """The HCA at ``address``, or why it cannot be used: it is ill, left out, or not there."""
    hca = next((hca for hca in machine.hcas if hca.address == address), None)
    if hca is not None:
        return illness(hca) or hca
    left_out = next((one.reason for one in machine.excluded if one.address == address), None)
    return left_out or reason(Code.HCA_GONE, address=address)
