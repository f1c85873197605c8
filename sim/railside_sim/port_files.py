"""The files of one RDMA port, ports/N, as mlx5 shows them.

It answers for their names and their text. It must not know where the device hangs.
"""

from typing import Final

from railside_proto.machine import LinkLayer
from railside_sim.parts import PortPart

_PHYSICAL: Final = {
    "NoStateChange": 0,
    "Sleep": 1,
    "Polling": 2,
    "Disabled": 3,
    "PortConfigurationTraining": 4,
    "LinkUp": 5,
    "LinkErrorRecovery": 6,
    "Phy Test": 7,
}

COUNTERS: Final = (
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
)
"""The 21 port counters of mlx5."""

HW_COUNTERS: Final = (
    "duplicate_request",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "roce_slow_restart_trans",
    "rx_atomic_requests",
    "rx_dct_connect",
    "rx_icrc_encapsulated",
    "rx_read_requests",
    "rx_write_requests",
)
"""The hardware counters of mlx5 that count; ``lifespan``, a setting in ms, stands beside them."""


def port_files(port: PortPart, guid: str) -> dict[str, str | int]:
    """Every file of the port by its path below ports/N; ``guid`` is the port's, for its first GID."""
    return {
        "state": f"{port.state.number}: {port.state}",
        "phys_state": f"{_PHYSICAL.get(port.phys, 0)}: {port.phys}",
        "rate": port.rate,
        "link_layer": str(port.link),
        "lid": hex(port.lid),
        "lid_mask_count": 0,
        "sm_lid": hex(port.sm_lid),
        "sm_sl": 0,
        "cap_mask": "0xa651e848" if port.link is LinkLayer.INFINIBAND else "0x00010000",
        "gids/0": f"fe80:0000:0000:0000:{guid}",
        "gid_attrs/types/0": "IB/RoCE v1",
        "pkeys/0": "0xffff",
        "hw_counters/lifespan": 10,
        **{f"counters/{name}": 0 for name in COUNTERS},
        **{f"hw_counters/{name}": 0 for name in HW_COUNTERS},
    }
