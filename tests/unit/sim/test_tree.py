"""The tree made from a manifest: what a real kernel would show, and nothing it would not."""

from itertools import product
from pathlib import Path

import pytest

from railside_proto.machine import Function, PathClass, PciAddress, path_class
from railside_sim.lines import ManifestError
from railside_sim.manifest import parse_manifest, read_manifest
from railside_sim.stand_in_nodes import StandInNodes
from railside_sim.tree import write_tree

MACHINE = Path(__file__).parents[2] / "machines" / "ecs.hpcpni3.45xlarge.machine"
HCAS = ("mlx5_0", *(f"mlx5_{number}" for number in range(3, 10)))
HCA = "hca pci0000:15/0000:15:01.0/0000:16:00.0 numa=0 name=mlx5_0 uverbs=0 guid=5c25:7303:00a1:4c10\n"
PORT = "port mlx5_0 1 link=InfiniBand state=INIT phys=LinkUp lid=0x1a umad=0\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("machine")
    write_tree(read_manifest(MACHINE), root, make_node=StandInNodes().make)
    return root


def text(path: Path) -> str:
    content = path.read_text()
    assert content.endswith("\n")
    return content.strip()


def function(root: Path, folder: Path) -> Function:
    *path, address = folder.resolve().relative_to(root.resolve() / "sys/devices").parts
    numa = int(text(folder / "numa_node"))
    return Function(address=PciAddress(address), path=tuple(path), numa_node=numa)


def gpus(root: Path) -> list[Function]:
    addresses = sorted(path.name for path in (root / "proc/driver/nvidia/gpus").iterdir())
    return [function(root, root / "sys/bus/pci/devices" / address) for address in addresses]


def hca(root: Path, name: str) -> Function:
    return function(root, root / "sys/class/infiniband" / name / "device")


def test_relations_are_those_of_the_matrix(root: Path) -> None:
    """Each GPU is PIX with its own HCA, NODE with the others of its NUMA node, SYS with the rest."""
    hcas = [hca(root, name) for name in HCAS]
    for (row, gpu), (column, other) in product(enumerate(gpus(root)), enumerate(hcas)):
        far = PathClass.NODE if row // 4 == column // 4 else PathClass.SYS
        assert path_class(gpu, other) == (PathClass.PIX if row == column else far)


def test_relations_are_those_of_the_recording(root: Path, recordings: Path) -> None:
    """Every GPU and NIC are as far apart as nvidia-smi printed it on such a machine, the bond included."""
    lines = (recordings / "topo-matrix/h800-8gpu-8ib-1bond.txt").read_text().splitlines()
    rows = [line.split()[9:18] for line in lines if line.startswith("GPU")]
    hcas = [hca(root, name) for name in (*HCAS, "mlx5_bond_0")]
    assert [[path_class(gpu, other).name for other in hcas] for gpu in gpus(root)] == rows


def test_the_bond_is_near_nobody(root: Path) -> None:
    """The Ethernet bond is NODE with NUMA node 0 and SYS with node 1, and is one device for two functions."""
    bond = hca(root, "mlx5_bond_0")
    classes = [path_class(gpu, bond) for gpu in gpus(root)]
    assert classes == [PathClass.NODE] * 4 + [PathClass.SYS] * 4
    assert text(root / "sys/class/infiniband/mlx5_bond_0/ports/1/link_layer") == "Ethernet"
    second = root / "sys/bus/pci/devices/0000:49:00.1"
    assert text(second / "vendor") == "0x15b3"
    assert not (second / "infiniband").exists()


def test_every_link_resolves_below_the_root(root: Path) -> None:
    """All links are relative, lead to something, and stay inside the tree."""
    links = [path for path in root.rglob("*") if path.is_symlink()]
    assert len(links) > 100
    for link in links:
        assert not link.readlink().is_absolute()
        assert link.resolve(strict=True).is_relative_to(root.resolve())


def test_links_end_in_their_targets_name(root: Path) -> None:
    """The text of a device link ends in the PCI address, as tools read it from there."""
    assert str((root / "sys/class/infiniband/mlx5_3/device").readlink()) == "../../../0000:2b:00.0"
    assert (root / "sys/bus/pci/devices/0000:2b:00.0/driver").readlink().name == "mlx5_core"


def test_bridges_are_on_the_bus(root: Path) -> None:
    """Root port and switch ports are PCI devices of class 0x060400 with the NUMA node of what is below."""
    for address in ("0000:97:01.0", "0000:98:00.0", "0000:99:00.0", "0000:99:01.0"):
        bridge = root / "sys/bus/pci/devices" / address
        assert (text(bridge / "class"), text(bridge / "numa_node")) == ("0x060400", "1")


def test_numa_nodes(root: Path) -> None:
    """NUMA nodes show CPUs, distances and memory in the kernel's words, and functions the CPUs beside them."""
    nodes = root / "sys/devices/system/node"
    assert text(nodes / "online") == "0-1"
    assert text(nodes / "node1/cpulist") == "56-111,168-223"
    assert text(nodes / "node1/distance") == "21 10"
    assert text(nodes / "node0/meminfo").startswith("Node 0 MemTotal:       1056964608 kB\n")
    assert text(root / "sys/class/infiniband/mlx5_9/device/local_cpulist") == "56-111,168-223"


def test_port_files(root: Path) -> None:
    """A port's files read as mlx5 prints them, 21 counters among them."""
    port = root / "sys/class/infiniband/mlx5_3/ports/1"
    expected = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "lid": "0x22"}
    assert {name: text(port / name) for name in expected} == expected
    assert len(list((port / "counters").iterdir())) == 21
    assert text(port / "gids/0") == "fe80:0000:0000:0000:5c25:7303:00a4:52f4"


def test_character_devices_name_their_device(root: Path) -> None:
    """uverbs, umad and issm say in ibdev and port whose they are; the Ethernet port has no issm."""
    verbs, mad = root / "sys/class/infiniband_verbs", root / "sys/class/infiniband_mad"
    assert (text(verbs / "abi_version"), text(mad / "abi_version")) == ("6", "5")
    assert (text(verbs / "uverbs2/ibdev"), text(verbs / "uverbs2/dev")) == ("mlx5_3", "231:194")
    assert (text(mad / "issm2/ibdev"), text(mad / "issm2/port"), text(mad / "issm2/dev")) == (
        "mlx5_3",
        "1",
        "231:66",
    )
    assert text(root / "sys/class/misc/rdma_cm/dev") == "10:58"
    assert (mad / "umad1").exists()
    assert not (mad / "issm1").exists()


def test_nodes_have_the_numbers_of_sysfs(root: Path) -> None:
    """Every node under /dev/infiniband has the numbers of its dev file; umad and issm are root's alone."""
    nodes = [StandInNodes().read(path) for path in sorted((root / "dev/infiniband").iterdir())]
    assert len(nodes) == 9 + 9 + 8 + 1
    for node in nodes:
        assert node is not None
        (dev,) = root.glob(f"sys/class/*/{node.name}/dev")
        assert text(dev) == f"{node.major}:{node.minor}"
        assert node.mode == (0o600 if node.name.startswith(("umad", "issm")) else 0o666)


def test_the_gpu_driver_speaks(root: Path) -> None:
    """Each GPU has the driver's information file; NVSwitches have none."""
    information = text(root / "proc/driver/nvidia/gpus/0000:18:00.0/information").splitlines()
    assert "Model: \t\t NVIDIA H800" in information
    assert "Device Minor: \t 0" in information
    assert len(gpus(root)) == 8


def test_the_virtual_topology_pairs_as_sysfs_does(root: Path) -> None:
    """Where asked for, virtualTopology.xml puts each GPU beside its HCA below one switch."""
    lines = text(root / "var/run/nvidia-topologyd/virtualTopology.xml").splitlines()
    at = next(index for index, line in enumerate(lines) if '"0000:18:00.0"' in line)
    assert '"0000:16:00.0"' in lines[at - 1]
    assert '"0000:1a:00.0"' in lines[at + 1]


def test_numbers_can_be_replaced(tmp_path: Path) -> None:
    """Stand-in numbers appear in the dev file and in the node; other nodes keep the kernel's."""
    nodes = StandInNodes()
    write_tree(parse_manifest(HCA + PORT), tmp_path, make_node=nodes.make, numbers={"uverbs0": (10, 229)})
    node = nodes.read(tmp_path / "dev/infiniband/uverbs0")
    assert node is not None
    assert (node.major, node.minor) == (10, 229)
    assert text(tmp_path / "sys/class/infiniband_verbs/uverbs0/dev") == "10:229"
    assert text(tmp_path / "sys/class/infiniband_mad/umad0/dev") == "231:0"


def test_a_recording_has_no_dev(tmp_path: Path) -> None:
    """Without a maker of nodes there is no dev folder, and taking a node away is no error."""
    write_tree(parse_manifest(f"{HCA}without dev/infiniband/uverbs0"), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sys"]


def test_nowhere_and_odd(tmp_path: Path) -> None:
    """A function at NUMA node -1 is beside all CPUs, and file, link and without have the last word."""
    machine = parse_manifest(
        HCA.replace("numa=0", "numa=-1")
        + PORT
        + "numa 0 cpus=0-3\nnuma 1 cpus=4-7\n"
        + "file sys/class/infiniband/mlx5_0/ports/1/rate ''\n"
        + "link sys/class/infiniband/scif0 ../../devices/gone\n"
        + "without sys/class/infiniband/mlx5_0/ports/1/counters\n",
    )
    write_tree(machine, tmp_path)
    device = tmp_path / "sys/class/infiniband/mlx5_0"
    assert (text(device / "device/numa_node"), text(device / "device/local_cpulist")) == ("-1", "0-7")
    assert not (device / "ports/1/rate").read_text()
    assert not (device / "ports/1/counters").exists()
    assert (tmp_path / "sys/class/infiniband/scif0").is_symlink()


def test_taking_away_nothing_is_an_error(tmp_path: Path) -> None:
    """A without that names nothing of the tree is told, since it would hide a spelling mistake."""
    with pytest.raises(ManifestError, match="without sys/nothing takes away nothing"):
        write_tree(parse_manifest("without sys/nothing", origin="odd.machine"), tmp_path)


def test_virtual_functions_and_software_devices(tmp_path: Path) -> None:
    """A virtual function links to its physical one and back; a software device has no device link."""
    write_tree(
        parse_manifest(
            HCA
            + HCA.replace("16:00.0", "16:00.1").replace("mlx5_0 uverbs=0", "mlx5_1 uverbs=40").strip()
            + " physfn=0000:16:00.0\n"
            + "hca virtual name=rxe0 uverbs=2 guid=5c25:7303:00a1:4c12",
        ),
        tmp_path,
    )
    parent = tmp_path / "sys/bus/pci/devices/0000:16:00.0"
    assert str((tmp_path / "sys/class/infiniband/mlx5_1/device/physfn").readlink()) == "../0000:16:00.0"
    assert ((parent / "virtfn0").resolve().name, text(parent / "sriov_numvfs")) == ("0000:16:00.1", "1")
    assert text(tmp_path / "sys/class/infiniband_verbs/uverbs40/dev") == "511:8"
    assert not (tmp_path / "sys/class/infiniband/rxe0/device").exists()


def test_a_machine_without_rdma(tmp_path: Path) -> None:
    """Without RDMA devices there is no class infiniband at all, as where no driver is loaded."""
    write_tree(parse_manifest("numa 0 cpus=0"), tmp_path)
    assert not (tmp_path / "sys/class").exists()


def test_a_controller_with_a_host_bridge_below_it(tmp_path: Path) -> None:
    """A VMD controller is a function of its own, and the host bridge below it is only a folder."""
    path = "pci0000:80/0000:80:05.5/pci10000:00/10000:00:01.0/10000:01:00.0"
    write_tree(parse_manifest(HCA.replace("pci0000:15/0000:15:01.0/0000:16:00.0", path)), tmp_path)
    bus = tmp_path / "sys/bus/pci/devices"
    assert sorted(link.name for link in bus.iterdir()) == ["0000:80:05.5", "10000:00:01.0", "10000:01:00.0"]
    assert [text(bus / name / "class") for name in ("0000:80:05.5", "10000:00:01.0")] == ["0x010400", "0x060400"]
    assert (bus / "10000:01:00.0").resolve().relative_to(tmp_path.resolve()) == Path("sys/devices") / path


def test_a_virtual_topology_may_tell_other_than_sysfs(tmp_path: Path) -> None:
    """A flat machine's file puts a function on the NUMA node and below the switch that its line tells."""
    manifest = "numa 0 cpus=0\nnuma 1 cpus=1\ntopology\n" + HCA.replace("numa=0", "numa=-1 told=1/ffff:ff:01.0")
    write_tree(parse_manifest(manifest), tmp_path)
    lines = text(tmp_path / "var/run/nvidia-topologyd/virtualTopology.xml").splitlines()
    order = [
        next(at for at, line in enumerate(lines) if word in line) for word in ('numaid="1"', "ffff:ff", "16:00.0")
    ]
    assert order == sorted(order)


@pytest.mark.parametrize(("line", "mode"), [("", "Y"), ("netns shared", "Y"), ("netns exclusive", "N")])
def test_the_mode_of_network_namespaces(tmp_path: Path, line: str, mode: str) -> None:
    """A kernel with RDMA shows the mode as a yes or no to sharing."""
    write_tree(parse_manifest(HCA + line), tmp_path)
    assert text(tmp_path / "sys/module/ib_core/parameters/netns_mode") == mode
