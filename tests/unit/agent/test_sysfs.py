import resource
from pathlib import Path

import pytest
from tests.unit.builders import INFINIBAND, ONE_HCA, RDMA, TWO_NUMA, one_device, seen, tree

from railside_agent.discovery import discover
from railside_agent.raw_machine import with_port_states
from railside_agent.sysfs import LONGEST_TOPOLOGY_BYTES, read_machine, read_port_states
from railside_proto.machine import PortState
from railside_sim.stand_in_nodes import StandInNodes


def test_without_descriptors_nothing_is_said_of_the_machine(tmp_path: Path) -> None:
    """A process that can open nothing more must not take every HCA for gone: its look fails."""
    root = tree(TWO_NUMA + ONE_HCA, tmp_path)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            seen(root)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        pytest.param("state", "9: STRANGE", (PortState.DOWN, 400.0, 26), id="state-unknown"),
        pytest.param("state", "", (PortState.DOWN, 400.0, 26), id="state-empty"),
        pytest.param("rate", "fast", (PortState.ACTIVE, 0.0, 26), id="rate-garbage"),
        pytest.param("rate", "2.5 Gb/sec (1X SDR)", (PortState.ACTIVE, 2.5, 26), id="rate-with-a-point"),
        pytest.param("lid", "N/A", (PortState.ACTIVE, 400.0, 0), id="lid-garbage"),
    ],
)
def test_a_port_with_odd_files(
    tmp_path: Path, file: str, content: str, expected: tuple[PortState, float, int]
) -> None:
    """Each file of a port is tolerated alone; a state that cannot be read is as good as down (B-DP-56)."""
    root = tree(TWO_NUMA + ONE_HCA, tmp_path)
    (root / RDMA / "ports/1" / file).write_text(content)
    (port,) = seen(root).hcas[0].ports
    assert expected == (port.state, port.rate_gbps, port.lid)


def test_a_topology_that_is_no_regular_file_is_none(tmp_path: Path) -> None:
    """A folder called virtualTopology.xml, as a container runtime makes one, is not the file."""
    (tree(TWO_NUMA, tmp_path) / "var/run/nvidia-topologyd/virtualTopology.xml").mkdir(parents=True)
    assert not seen(tmp_path).virtual_topology


def test_a_topology_that_is_far_too_long_is_not_read(tmp_path: Path) -> None:
    """Such a file is shown to containers as it is, and the agent tells itself nothing from it."""
    file = tree(TWO_NUMA, tmp_path) / "var/run/nvidia-topologyd/virtualTopology.xml"
    file.parent.mkdir(parents=True)
    file.write_bytes(b" " * (LONGEST_TOPOLOGY_BYTES + 1))
    raw = read_machine(tmp_path, StandInNodes())
    assert (raw.virtual_topology, raw.virtual_topology_text) == (True, None)


def test_functions_that_can_matter_to_nobody_are_not_read(tmp_path: Path) -> None:
    """Bridges, disks and controllers are hundreds on a large machine, and none is an HCA or a GPU."""
    disk = "pci pci0000:15/0000:15:04.0/0000:19:00.0 numa=0 vendor=0x8086 device=0x0a54 class=0x010802"
    raw = read_machine(tree(f"{TWO_NUMA}{ONE_HCA}{disk}", tmp_path), StandInNodes())
    assert [function.address for function in raw.functions] == ["0000:16:00.0"]


def test_the_function_of_an_rdma_device_is_read_whatever_its_class(tmp_path: Path) -> None:
    """What is an RDMA device is said by the RDMA subsystem, not by a PCI class (B-DP-11)."""
    root = tree(one_device(INFINIBAND, facts="uverbs=0 class=0x0c0600"), tmp_path)
    (function,) = read_machine(root, StandInNodes()).functions
    assert (function.pci_class, function.numa_node, function.driver) == ("0x0c0600", "0", "mlx5_core")


def test_a_card_that_was_not_asked_or_does_not_answer_is_silent(tmp_path: Path) -> None:
    """A silent HCA stays one of the machine's, with its ports down, until it answers (B-DP-37)."""
    root = tree(TWO_NUMA + ONE_HCA, tmp_path)
    raw = read_machine(root, StandInNodes())
    answers = (None, read_port_states(root, "mlx5_0"))
    found = [discover(with_port_states(raw, {"mlx5_0": answer})).hcas[0] for answer in answers]
    told = [(hca.silent, hca.ports[0].state, hca.ports[0].link_layer.value) for hca in found]
    assert told == [(True, PortState.DOWN, "InfiniBand"), (False, PortState.ACTIVE, "InfiniBand")]


def test_a_card_without_an_answer_for_one_port_is_not_silent(tmp_path: Path) -> None:
    """A port that vanished between two looks is down; the card has answered."""
    raw = read_machine(tree(TWO_NUMA + ONE_HCA, tmp_path), StandInNodes())
    (hca,) = discover(with_port_states(raw, {"mlx5_0": ()})).hcas
    assert (hca.silent, hca.ports[0].state) == (False, PortState.DOWN)


def test_a_link_that_names_a_function_which_is_gone_is_none(tmp_path: Path) -> None:
    """A device whose function went a moment ago belongs to no function, and so is not offered."""
    root = tree(TWO_NUMA + ONE_HCA, tmp_path)
    link = root / RDMA / "device"
    link.unlink()
    link.symlink_to("../../../0000:77:00.0")
    assert read_machine(root, StandInNodes()).rdma_devices[0].function is None
