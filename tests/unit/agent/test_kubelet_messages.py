from tests.unit.agent.situations import POOL, listed, rules, situation
from tests.unit.builders import hca, port

from railside_agent.container_edits import Style, edits
from railside_agent.kubelet_messages import allocate_answer, device_list
from railside_agent.seats import Offer, OfferedSeat
from railside_proto.machine import PortState
from railside_proto.pool import Seat


def test_the_numa_node_0_is_told() -> None:
    """The hint of node 0 is there, though it looks empty on the wire."""
    (device,) = device_list(listed(situation(hca(1, 0)))).devices
    assert (device.HasField("topology"), [node.ID for node in device.topology.nodes]) == (True, [0])


def test_every_numa_node_is_told_of_a_seat_that_fits_everywhere() -> None:
    """A seat with all nodes has them all in its hint."""
    devices = device_list(listed(situation(hca(1, 0), hca(2, None)))).devices
    assert [[node.ID for node in device.topology.nodes] for device in devices] == [[0, 1], [0]]


def test_a_bare_seat_has_no_topology() -> None:
    """No TopologyInfo and an empty one differ: the kubelet deals the first and bars the second (B-DP-18)."""
    (device,) = device_list(listed(situation(hca(1)), by=rules(advertise_topology="never"))).devices
    assert not device.HasField("topology")


def test_health_in_the_kubelets_words() -> None:
    """A seat is Healthy or Unhealthy as it is told, in the order of the list (B-DP-37)."""
    seats = tuple(OfferedSeat(seat=Seat(id=name), healthy=name == "a") for name in ("a", "b"))
    devices = device_list(Offer(seats=seats)).devices
    assert [(device.ID, device.health) for device in devices] == [("a", "Healthy"), ("b", "Unhealthy")]


def test_an_ill_hca_is_not_in_the_list() -> None:
    """A fresh list has no seat for an HCA that is ill."""
    down = (port(PortState.DOWN),)
    devices = device_list(listed(situation(hca(1), hca(2, ports=down)))).devices
    assert [device.ID for device in devices] == ["n0-s0"]


def test_the_answer_to_allocate() -> None:
    """Devices may be read and written, mounts only read, and variables go along."""
    wanted = edits(POOL, ("n0-s0",), Style(nccl_config=True), virtual_topology=True)
    answer = allocate_answer(wanted)
    devices = [(one.host_path, one.container_path, one.permissions) for one in answer.devices]
    mounts = [(one.host_path, one.container_path, one.read_only) for one in answer.mounts]
    assert [(one.host_path, one.container_path, "rw") for one in wanted.devices] == devices
    assert [(one.host_path, one.container_path, True) for one in wanted.mounts] == mounts
    assert wanted.environment == dict(answer.envs)
    assert wanted.environment
