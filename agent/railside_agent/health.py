"""Says whether an HCA is sound at one moment. It must not remember anything."""

from railside_proto.machine import Hca, LinkLayer, PortState
from railside_proto.reasons import Code, Reason, reason


def illness(hca: Hca) -> Reason | None:
    """Why ``hca`` is not sound; None when it is: one active InfiniBand port is enough."""
    states = {port.number: port.state for port in hca.ports if port.link_layer is LinkLayer.INFINIBAND}
    if PortState.ACTIVE in states.values():
        return None
    # INIT and ARMED are a working link that waits for the subnet manager.
    waiting = {PortState.INIT, PortState.ARMED} & set(states.values())
    code = Code.NO_SUBNET_MANAGER if waiting else Code.NO_ACTIVE_PORT
    detail = ", ".join(f"port {number} is {state}" for number, state in sorted(states.items()))
    return reason(code, device=hca.name, detail=detail)
