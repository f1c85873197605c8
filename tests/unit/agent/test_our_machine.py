from tests.unit.builders import left_out

from railside_proto.machine import DeviceNode, LinkLayer, Machine, NetnsMode, NumaNode, PortState
from railside_proto.reasons import Code


def test_its_hcas(our_machine: Machine) -> None:
    """Eight HCAs are offered, each with the uverbs node that the kernel says is its own."""
    found = {hca.name: hca.uverbs.name for hca in our_machine.hcas}
    expected = {"mlx5_0": "uverbs0"} | {f"mlx5_{number}": f"uverbs{number - 1}" for number in range(3, 10)}
    assert expected == found


def test_one_hca_whole(our_machine: Machine) -> None:
    """Everything that the tree says of an HCA is there."""
    hca = our_machine.hcas[0]
    assert (
        "0000:1a:00.0",
        ("pci0000:15", "0000:15:01.0", "0000:16:00.0", "0000:17:01.0"),
        0,
        "5c25:7303:00a1:4c10",
        "MT4129",
        DeviceNode(name="uverbs0", major=231, minor=192),
        (DeviceNode(name="umad0", major=231, minor=0, mode=0o600),),
    ) == (hca.address, hca.path, hca.numa_node, hca.node_guid, hca.model, hca.uverbs, hca.umads)
    assert (hca.sys_image_guid, hca.firmware, hca.board) == (hca.node_guid, "28.39.1002", "MT_0000000838")
    assert (hca.parent, hca.silent, hca.software, hca.told_by_file) == (None, False, False, False)
    (port,) = hca.ports
    expected = (1, LinkLayer.INFINIBAND, PortState.ACTIVE, "LinkUp", 400.0, 0x1A, 1)
    assert expected == (
        port.number,
        port.link_layer,
        port.state,
        port.phys_state,
        port.rate_gbps,
        port.lid,
        port.sm_lid,
    )


def test_its_bond_is_left_out(our_machine: Machine) -> None:
    """The bond of the storage card speaks Ethernet and is left out with that reason (B-DP-5)."""
    machine = our_machine
    assert left_out(machine) == {"mlx5_bond_0": Code.ETHERNET_LINK}
    assert machine.excluded[0].address == "0000:49:00.0"


def test_its_gpus(our_machine: Machine) -> None:
    """Eight GPUs have model and UUID; NVSwitches carry the same vendor's id and are none."""
    gpus = our_machine.gpus
    assert [(gpu.vendor, gpu.model) for gpu in gpus] == [("nvidia", "NVIDIA H800")] * 8
    assert [gpu.numa_node for gpu in gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [gpu.index for gpu in gpus] == list(range(8))
    assert gpus[0].uuid == "GPU-8b938a01-0274-c6b2-7d36-58bbf68415a9"


def test_its_numa_nodes(our_machine: Machine) -> None:
    """NUMA nodes come with CPUs and distances."""
    expected = (
        NumaNode(number=0, cpus="0-55,112-167", distances=(10, 21)),
        NumaNode(number=1, cpus="56-111,168-223", distances=(21, 10)),
    )
    assert expected == our_machine.numa_nodes


def test_what_all_containers_share(our_machine: Machine) -> None:
    """The connection manager's node and the virtual topology's file are seen."""
    machine = our_machine
    expected = (DeviceNode(name="rdma_cm", major=10, minor=58), True, NetnsMode.SHARED)
    assert expected == (machine.rdma_cm, machine.virtual_topology, machine.netns_mode)
