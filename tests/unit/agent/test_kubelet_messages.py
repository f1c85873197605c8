from tests.unit.builders import hca, machine, port

from railside_agent.container_edits import edits
from railside_agent.kubelet_messages import allocate_answer, device_list
from railside_agent.seats import offer
from railside_proto.machine import PortState
from railside_proto.pool import Pool


def test_the_numa_node_0_is_told() -> None:
    """The hint of node 0 is there, though it looks empty on the wire."""
    (device,) = device_list(offer(machine(hca(1, 0)), Pool())).devices
    assert (device.HasField("topology"), [node.ID for node in device.topology.nodes]) == (True, [0])


def test_every_numa_node_is_told_of_an_hca_that_fits_everywhere() -> None:
    """A seat with all nodes has them all in its hint."""
    devices = device_list(offer(machine(hca(1, 0), hca(2, None)), Pool())).devices
    assert [[node.ID for node in device.topology.nodes] for device in devices] == [[0], [0, 1]]


def test_a_bare_seat_has_no_topology() -> None:
    """No TopologyInfo and an empty one differ: the kubelet deals the first and bars the second (B-DP-18)."""
    (device,) = device_list(offer(machine(hca(1, None)), Pool())).devices
    assert not device.HasField("topology")


def test_health_in_the_kubelets_words() -> None:
    """A seat is Healthy or Unhealthy as its HCA is (B-DP-37)."""
    devices = device_list(offer(machine(hca(1), hca(2, ports=(port(PortState.DOWN),))), Pool())).devices
    assert [(device.ID, device.health) for device in devices] == [("n0-s0", "Healthy"), ("n0-s1", "Unhealthy")]


def test_the_answer_to_allocate() -> None:
    """Devices may be read and written, mounts only read."""
    wanted = edits(Pool(), ("n0-s0",), "", virtual_topology=True)
    answer = allocate_answer(wanted)
    devices = [(one.host_path, one.container_path, one.permissions) for one in answer.devices]
    mounts = [(one.host_path, one.container_path, one.read_only) for one in answer.mounts]
    assert [(one.host_path, one.container_path, "rw") for one in wanted.devices] == devices
    assert [(one.host_path, one.container_path, True) for one in wanted.mounts] == mounts
