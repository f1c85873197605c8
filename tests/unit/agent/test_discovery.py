import json
import os
import re
import resource
import shutil
import tarfile
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.agent.situations import listed, situation
from tests.unit.builders import ONE_HCA, TWO_NUMA, seen, tree

from railside_agent.discovery import discover
from railside_agent.kernel_text import pci_address
from railside_agent.kubelet_messages import device_list
from railside_agent.sysfs import LONGEST_TEXT_BYTES, read_text, read_whole_machine
from railside_proto.machine import DeviceNode, LinkLayer, Machine, NumaNode, PortState
from railside_proto.pool import Selector
from railside_proto.reasons import Code
from railside_sim.stand_in_nodes import StandInNodes

_FUNCTION = "pci0000:15/0000:15:01.0/0000:16:00.0"
_RDMA = f"sys/devices/{_FUNCTION}/infiniband/mlx5_0"
_ETHERNET = "link=Ethernet state=ACTIVE"
_INFINIBAND = "link=InfiniBand state=ACTIVE"


def _device(*ports: str, facts: str = "uverbs=0", path: str = _FUNCTION, numa: int = 0) -> str:
    """A machine of one RDMA device with ``ports``."""
    lines = [f"port mlx5_0 {number} {port}" for number, port in enumerate(ports, start=1)]
    guid = "5c25:7303:00a1:4c10"
    return "\n".join([TWO_NUMA, f"hca {path} numa={numa} name=mlx5_0 guid={guid} {facts}", *lines])


def _excluded(machine: Machine) -> dict[str, Code]:
    return {one.name: one.reason.code for one in machine.excluded}


def _names(machine: Machine) -> list[str]:
    return [hca.name for hca in machine.hcas]


class TestOurMachine:
    def test_its_hcas(self, our_machine: Machine) -> None:
        """Eight HCAs are offered, each with the uverbs node that the kernel says is its own."""
        found = {hca.name: hca.uverbs.name for hca in our_machine.hcas}
        expected = {"mlx5_0": "uverbs0"} | {f"mlx5_{number}": f"uverbs{number - 1}" for number in range(3, 10)}
        assert expected == found

    def test_one_hca_whole(self, our_machine: Machine) -> None:
        """Everything that the tree says of an HCA is there."""
        hca = our_machine.hcas[0]
        assert (
            "0000:1a:00.0",
            ("pci0000:15", "0000:15:01.0", "0000:16:00.0", "0000:17:01.0"),
            0,
            "5c25:7303:00a1:4c10",
            "MT4129",
            DeviceNode(name="uverbs0", major=231, minor=192),
        ) == (hca.address, hca.path, hca.numa_node, hca.node_guid, hca.model, hca.uverbs)
        (port,) = hca.ports
        expected = (1, LinkLayer.INFINIBAND, PortState.ACTIVE, 400.0, 0x1A)
        assert expected == (port.number, port.link_layer, port.state, port.rate_gbps, port.lid)

    def test_its_bond_is_left_out(self, our_machine: Machine) -> None:
        """The bond of the storage card speaks Ethernet and is left out with that reason (B-DP-5)."""
        machine = our_machine
        assert _excluded(machine) == {"mlx5_bond_0": Code.ETHERNET_LINK}
        assert machine.excluded[0].address == "0000:49:00.0"

    def test_its_gpus(self, our_machine: Machine) -> None:
        """Eight GPUs have model and UUID; NVSwitches carry the same vendor's id and are none."""
        gpus = our_machine.gpus
        assert [(gpu.vendor, gpu.model) for gpu in gpus] == [("nvidia", "NVIDIA H800")] * 8
        assert [gpu.numa_node for gpu in gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
        assert gpus[0].uuid == "GPU-8b938a01-0274-c6b2-7d36-58bbf68415a9"

    def test_its_numa_nodes(self, our_machine: Machine) -> None:
        """NUMA nodes come with CPUs and distances."""
        expected = (
            NumaNode(number=0, cpus="0-55,112-167", distances=(10, 21)),
            NumaNode(number=1, cpus="56-111,168-223", distances=(21, 10)),
        )
        assert expected == our_machine.numa_nodes

    def test_what_all_containers_share(self, our_machine: Machine) -> None:
        """The connection manager's node and the virtual topology's file are seen."""
        machine = our_machine
        expected = (DeviceNode(name="rdma_cm", major=10, minor=58), True)
        assert expected == (machine.rdma_cm, machine.virtual_topology)


def test_devices_of_every_wanted_link_layer_are_there(tmp_path: Path) -> None:
    """With a pool for Ethernet beside the one for InfiniBand, a machine shows the devices of both."""
    root = tree(_device(_ETHERNET), tmp_path)
    raw = read_whole_machine(root, StandInNodes())
    both = [Selector(), Selector(link_layer=LinkLayer.ETHERNET)]
    assert (_names(discover(raw)), _names(discover(raw, both))) == ([], ["mlx5_0"])


@pytest.mark.parametrize(
    ("text", "hcas", "excluded"),
    [
        pytest.param(_device(_INFINIBAND), ["mlx5_0"], {}, id="B-DP-1-no-rdma_cm"),
        pytest.param(_device(_INFINIBAND), ["mlx5_0"], {}, id="B-DP-2-no-umad-and-issm"),
        pytest.param(_device(_ETHERNET), [], {"mlx5_0": Code.ETHERNET_LINK}, id="B-DP-5-flipped-to-ethernet"),
        pytest.param(_device(_INFINIBAND, _ETHERNET), ["mlx5_0"], {}, id="B-DP-5-one-port-of-two-flipped"),
        pytest.param(
            _device(_INFINIBAND, "link=InfiniBand state=DOWN"), ["mlx5_0"], {}, id="B-DP-10-one-port-of-two-down"
        ),
        pytest.param(
            _device(_INFINIBAND, facts="uverbs=0 class=0x00ff00"), ["mlx5_0"], {}, id="B-DP-11-odd-pci-class"
        ),
        pytest.param(
            _device(_INFINIBAND) + "\npci pci0000:15/0000:15:02.0/0000:17:00.0 numa=0 vendor=0x15b3 device=0x101e"
            " class=0x020700",
            ["mlx5_0"],
            {},
            id="B-DP-12-function-without-driver",
        ),
        pytest.param(
            _device(_INFINIBAND, facts="uverbs=0 driver=''"), ["mlx5_0"], {}, id="B-DP-12-hca-without-driver-link"
        ),
        pytest.param(
            _device(_INFINIBAND) + "\nwithout dev/infiniband/uverbs0",
            [],
            {"mlx5_0": Code.UVERBS_MISSING},
            id="B-DP-3-node-not-made-yet",
        ),
        pytest.param(
            _device(_INFINIBAND, facts=""), [], {"mlx5_0": Code.UVERBS_MISSING}, id="B-DP-3-ib_uverbs-not-loaded"
        ),
        pytest.param(
            _device(_INFINIBAND) + f"\nwithout sys/devices/{_FUNCTION}/infiniband_verbs/uverbs0/dev",
            [],
            {"mlx5_0": Code.UVERBS_MISSING},
            id="B-DP-3-no-numbers",
        ),
        pytest.param(
            _device(_INFINIBAND) + '\nfile dev/infiniband/uverbs0 "c 231:200 0666 0 0\\n"',
            [],
            {"mlx5_0": Code.UVERBS_NUMBERS_DIFFER},
            id="B-DP-14-stale-node",
        ),
        pytest.param(
            _device(_INFINIBAND) + '\nfile dev/infiniband/uverbs0 "no node"',
            [],
            {"mlx5_0": Code.UVERBS_MISSING},
            id="B-DP-14-something-else-in-its-place",
        ),
        pytest.param(
            _device(_INFINIBAND) + "\nlink sys/class/infiniband/scif0 ../../devices/virtual/scif0",
            ["mlx5_0"],
            {},
            id="dangling-class-entry",
        ),
        pytest.param(_device(), [], {"mlx5_0": Code.NO_PORTS}, id="no-ports"),
        pytest.param(
            _device("link=Unspecified state=DOWN"),
            [],
            {"mlx5_0": Code.LINK_LAYER_UNKNOWN},
            id="link-layer-unknown",
        ),
        pytest.param(
            _device(_INFINIBAND) + f"\nwithout {_RDMA}/ports/1/link_layer",
            [],
            {"mlx5_0": Code.LINK_LAYER_UNKNOWN},
            id="link-layer-not-readable",
        ),
        pytest.param(
            TWO_NUMA + f"hca virtual name=rxe0 guid=5c25:7303:00a1:4c10 uverbs=0\nport rxe0 1 {_INFINIBAND}",
            [],
            {"rxe0": Code.NO_PCI_FUNCTION},
            id="software-rdma",
        ),
        pytest.param(TWO_NUMA, [], {}, id="no-rdma-at-all"),
        pytest.param("", [], {}, id="nothing-at-all"),
    ],
)
def test_odd_situations(tmp_path: Path, text: str, hcas: list[str], excluded: dict[str, Code]) -> None:
    """What is sound is offered whatever else is odd (B-DP-1 -2 -3 -5 -10 -11 -12 -14), the rest has a reason."""
    machine = seen(tree(text, tmp_path))
    assert (hcas, excluded) == (_names(machine), _excluded(machine))


def test_the_connection_manager_is_optional_and_seen_once_it_appears(tmp_path: Path) -> None:
    """Without rdma_cm an HCA is offered, and the node is seen as soon as its module is loaded (B-DP-1)."""
    root = tree(_device(_INFINIBAND), tmp_path)
    before = seen(root).rdma_cm
    rdma_cm = DeviceNode(name="rdma_cm", major=10, minor=58)
    StandInNodes().make(root / "dev/infiniband/rdma_cm", rdma_cm)
    (root / "sys/class/misc/rdma_cm").mkdir(parents=True)
    (root / "sys/class/misc/rdma_cm/dev").write_text("10:58\n")
    assert (None, rdma_cm) == (before, seen(root).rdma_cm)


def test_a_stale_connection_manager_is_left_out(tmp_path: Path) -> None:
    """A node called rdma_cm with other numbers than the kernel's is some other device, and goes to nobody."""
    root = tree(TWO_NUMA + ONE_HCA, tmp_path)
    (root / "sys/class/misc/rdma_cm/dev").write_text("10:59\n")
    assert seen(root).rdma_cm is None


@pytest.mark.parametrize("name", [b"bond\xff", b"a\nb", b"a,b", b"\x1b[31m", b"\xc3\xa9"])
def test_a_name_that_could_forge_something_is_left_out(tmp_path: Path, name: bytes) -> None:
    """A device whose name would go oddly through lists, files and terminals is told by its escaped name."""
    root = tree(TWO_NUMA + ONE_HCA, tmp_path)
    place = root / "sys/class/infiniband/mlx5_0"
    place.rename(place.with_name(os.fsdecode(name)))
    found = seen(root)
    (left_out,) = found.excluded
    assert (found.hcas, left_out.reason.code, left_out.name.isascii()) == ((), Code.ODD_NAME, True)
    assert left_out.name.isprintable()


@pytest.mark.parametrize(
    ("place", "content"),
    [
        ("class/infiniband/mlx5_0/ports/1/lid", "0x" + "f" * 40),
        ("class/infiniband_verbs/uverbs0/dev", "231:99999999999"),
        ("bus/pci/devices/0000:16:00.0/numa_node", "9223372036854775808"),
        ("devices/system/node/node0/distance", "99999999999999999999 1"),
    ],
)
def test_absurd_numbers_break_nothing(tmp_path: Path, place: str, content: str) -> None:
    """A number that no kernel prints can be said to the kubelet and to programs, or is left out (P)."""
    root = tree(TWO_NUMA + ONE_HCA, tmp_path)
    (root / "sys" / place).write_text(content + "\n")
    found = seen(root)
    seats = listed(situation(*found.hcas, machine=found))
    assert len(found.hcas) == len(device_list(seats).devices)
    assert msgspec.json.encode(found)


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


def test_two_devices_on_one_function_are_one_hca(tmp_path: Path) -> None:
    """A function with a second RDMA device is offered once, and the second is told (B-DP-9)."""
    root = tree(TWO_NUMA + ONE_HCA, tmp_path)
    place = root / "sys/class/infiniband/mlx5_0"
    real = place.resolve()
    shutil.copytree(real, real.with_name("mlx5_7"), symlinks=True)
    place.with_name("mlx5_7").symlink_to(real.with_name("mlx5_7"))
    verbs = root / "sys/class/infiniband_verbs/uverbs7"
    verbs.mkdir()
    (verbs / "ibdev").write_text("mlx5_7\n")
    (verbs / "dev").write_text("231:199\n")
    StandInNodes().make(root / "dev/infiniband/uverbs7", DeviceNode(name="uverbs7", major=231, minor=199))
    found = seen(root)
    assert [hca.name for hca in found.hcas] == ["mlx5_0"]
    assert [(one.name, one.reason.code) for one in found.excluded] == [("mlx5_7", Code.SAME_FUNCTION)]


def test_capacity_is_the_hcas_that_are_there(tmp_path: Path) -> None:
    """A machine of one HCA shows one (B-DP-4)."""
    assert len(seen(tree(TWO_NUMA + ONE_HCA, tmp_path)).hcas) == 1


def test_a_dual_port_hca_is_one_hca_with_the_state_of_each_port(tmp_path: Path) -> None:
    """Ports are told apart and HCAs are counted, not ports (B-DP-10)."""
    (hca,) = seen(tree(_device(_INFINIBAND, "link=InfiniBand state=DOWN"), tmp_path)).hcas
    assert [(port.number, port.state) for port in hca.ports] == [(1, PortState.ACTIVE), (2, PortState.DOWN)]


@pytest.mark.parametrize(
    ("numa", "extra", "expected"),
    [
        pytest.param(1, "", 1, id="known"),
        pytest.param(-1, "", None, id="firmware-names-none"),
        pytest.param(7, "", None, id="node-does-not-exist"),
        pytest.param(2, "numa 2 cpus=''", None, id="node-of-memory-alone"),
        pytest.param(0, f"without sys/devices/{_FUNCTION}/numa_node", None, id="file-missing"),
        pytest.param(0, f"file sys/devices/{_FUNCTION}/numa_node garbage", None, id="file-garbage"),
    ],
)
def test_numa_nodes_are_those_that_the_machine_has(
    tmp_path: Path, numa: int, extra: str, expected: int | None
) -> None:
    """A NUMA node that is unknown, or that the machine does not have, is None and never a bad hint (B-DP-18)."""
    (hca,) = seen(tree(f"{_device(_INFINIBAND, numa=numa)}\n{extra}", tmp_path)).hcas
    assert expected == hca.numa_node


def test_a_virtual_function_beside_its_physical_one_is_left_out(tmp_path: Path) -> None:
    """Left-over SR-IOV: the physical function is offered, its virtual ones are not (B-DP-20)."""
    virtual = (
        "\nhca pci0000:15/0000:15:01.0/0000:16:00.1 numa=0 name=mlx5_1 uverbs=1 guid=5c25:7303:00a1:4c11"
        f" physfn=0000:16:00.0\nport mlx5_1 1 {_INFINIBAND}"
    )
    machine = seen(tree(_device(_INFINIBAND) + virtual, tmp_path))
    assert (_names(machine), _excluded(machine)) == (["mlx5_0"], {"mlx5_1": Code.VIRTUAL_FUNCTION})
    assert "0000:16:00.0" in machine.excluded[0].reason.sentence


def test_hcas_and_their_nodes_are_joined_by_name_and_not_by_number(tmp_path: Path) -> None:
    """Uverbs numbers that run against the HCAs' are joined by what ``ibdev`` says."""
    text = TWO_NUMA + "".join(
        f"\nhca pci0000:{bus}/0000:{bus}:01.0/0000:{bus + 1}:00.0 numa=0 name=mlx5_{number} uverbs={3 - number}"
        f" guid=5c25:7303:00a1:000{number}\nport mlx5_{number} 1 {_INFINIBAND}"
        for number, bus in enumerate((20, 30, 40, 50))
    )
    found = {hca.name: hca.uverbs.name for hca in seen(tree(text, tmp_path)).hcas}
    assert found == {"mlx5_0": "uverbs3", "mlx5_1": "uverbs2", "mlx5_2": "uverbs1", "mlx5_3": "uverbs0"}


def test_a_domain_of_more_than_four_digits(tmp_path: Path) -> None:
    """PCI domains over four digits, as behind a VMD controller, are read and keep all digits."""
    path = "pci10000:00/10000:00:01.0/10000:01:00.0"
    (hca,) = seen(tree(_device(_INFINIBAND, path=path), tmp_path)).hcas
    assert (hca.address, hca.path) == ("10000:01:00.0", ("pci10000:00", "10000:00:01.0"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0000:18:00.0", "0000:18:00.0"),
        ("00000000:18:00.0", "0000:18:00.0"),
        ("0000:AF:00.0", "0000:af:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("0034:01:00.0", "0034:01:00.0"),
        ("nonsense", "nonsense"),
    ],
)
def test_pci_addresses_have_one_spelling(text: str, expected: str) -> None:
    """Sysfs and NVIDIA's tools spell addresses differently; they compare as equal."""
    assert expected == pci_address(text)


class TestOddFiles:
    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            pytest.param(b"4: ACTIVE\n", "4: ACTIVE", id="usual"),
            pytest.param(b"\nInfiniBand\n\n", "InfiniBand", id="blank-lines"),
            pytest.param(b"", "", id="empty"),
            pytest.param(b"\xff\xfe\0", "\ufffd\ufffd", id="not-text"),
            pytest.param(b"x" * 10_000_000, "x" * LONGEST_TEXT_BYTES, id="huge"),
        ],
    )
    def test_read_text(self, tmp_path: Path, content: bytes, expected: str) -> None:
        """Any content is text, at most a page of it (B-DP-56)."""
        (tmp_path / "file").write_bytes(content)
        assert expected == read_text(tmp_path / "file")

    def test_a_pipe_does_not_hang_the_reader(self, tmp_path: Path) -> None:
        """A FIFO that nobody writes to is an empty file."""
        os.mkfifo(tmp_path / "pipe")
        assert read_text(tmp_path / "pipe") == ""

    def test_a_folder_or_nothing_is_none(self, tmp_path: Path) -> None:
        """What cannot be read is None."""
        (tmp_path / "loop").symlink_to("loop")
        assert [read_text(path) for path in (tmp_path, tmp_path / "absent", tmp_path / "loop")] == [None] * 3

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
        self, tmp_path: Path, file: str, content: str, expected: tuple[PortState, float, int]
    ) -> None:
        """Each file of a port is tolerated alone; a state that cannot be read is as good as down (B-DP-56)."""
        root = tree(TWO_NUMA + ONE_HCA, tmp_path)
        (root / _RDMA / "ports/1" / file).write_text(content)
        (port,) = seen(root).hcas[0].ports
        assert expected == (port.state, port.rate_gbps, port.lid)

    def test_a_topology_that_is_no_regular_file_is_none(self, tmp_path: Path) -> None:
        """A folder called virtualTopology.xml, as a container runtime makes one, is not the file."""
        (tree(TWO_NUMA, tmp_path) / "var/run/nvidia-topologyd/virtualTopology.xml").mkdir(parents=True)
        assert not seen(tmp_path).virtual_topology


class TestRecordedMachines:
    def test_mlx4_of_two_numa_nodes(self, recordings: Path, tmp_path: Path) -> None:
        """An HCA whose PCI class is not InfiniBand's is found; a dangling class entry is skipped (B-DP-11)."""
        archive = "hwloc-2numa-mlx4.tar.bz2"
        root = _unpacked(recordings, archive, tmp_path)
        told = _expected(recordings, archive)
        device = told["devices"]["mlx4_0"]
        before = _excluded(seen(root))
        # The recording lacks this class folder; the entry that it links to is there.
        verbs = root / "sys/class/infiniband_verbs/uverbs0"
        verbs.parent.mkdir()
        verbs.symlink_to("../../devices/pci0000:80/0000:80:02.2/0000:82:00.0/infiniband_verbs/uverbs0")
        machine = seen(root)
        (hca,) = machine.hcas
        assert (before, _excluded(machine)) == ({"mlx4_0": Code.UVERBS_MISSING}, {})
        assert told["numa_nodes"] == [node.number for node in machine.numa_nodes]
        assert (
            "mlx4_0",
            device["pci_bdf"],
            int(device["pci_numa_node"]),
            device["node_guid"],
            device["hca_type"],
            ("pci0000:80", "0000:80:02.2"),
        ) == (hca.name, hca.address, hca.numa_node, hca.node_guid, hca.model, hca.path)
        assert [(port.state, port.rate_gbps, port.lid) for port in hca.ports] == [(PortState.ACTIVE, 56.0, 0x3A4)]

    def test_power9_with_six_gpus(self, recordings: Path, tmp_path: Path) -> None:
        """NUMA nodes that are the memory of GPUs are no places for a pod."""
        machine = seen(_unpacked(recordings, "hwloc-power9-6gpu-numanodes.tar.bz2", tmp_path))
        assert ([node.number for node in machine.numa_nodes], machine.hcas) == ([0, 8], ())

    @pytest.mark.parametrize(
        ("archive", "below"),
        [
            pytest.param("gpud-h100-9hca-class.tar.gz", "sys/class/infiniband", id="h100"),
            pytest.param("procfs-hfi1-mlx4-mlx5-class.tar.gz", "", id="hfi1-mlx4-mlx5"),
        ],
    )
    def test_ports_of_class_folders(self, recordings: Path, tmp_path: Path, archive: str, below: str) -> None:
        """Every port reads as recorded; without a PCI function no device is offered, and each has a reason."""
        root = tmp_path / "root"
        folder = root / below
        folder.parent.mkdir(parents=True, exist_ok=True)
        _unpacked(recordings, archive, tmp_path / "unpacked", strip=bool(below)).rename(folder)
        raw = read_whole_machine(root, StandInNodes())
        devices = _expected(recordings, archive)["devices"]
        expected = {
            (name, number): tuple(port[file] for file in ("link_layer", "state", "rate"))
            for name, device in devices.items()
            for number, port in device["ports"].items()
        }
        read = {
            (device.name, port.name): (port.link_layer, state.state, state.rate)
            for device in raw.rdma_devices
            for port, state in zip(device.ports, device.port_states or (), strict=True)
        }
        assert expected == read
        assert dict.fromkeys(devices, Code.NO_PCI_FUNCTION) == _excluded(discover(raw))


_LOOKED_AT = re.compile(
    r"/(vendor|class|numa_node|cpulist|distance|dev|ibdev|node_guid|hca_type|board_id|link_layer|state|rate|lid)$"
    r"|/device$|class/infiniband|bus/pci/devices"
)


def _unpacked(recordings: Path, archive: str, into: Path, *, strip: bool = True) -> Path:
    """The root of a recorded tree, unpacked; archives with one folder above the tree are entered."""
    with tarfile.open(recordings / "sysfs" / archive) as tar:
        members = [member for member in tar if _wanted(member)]
        # Debian's 3.11 is older than the filter, which later Pythons ask for.
        safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(into, members=members, **safely)  # noqa: S202 -- recordings are data of our own
    return next(into.iterdir()) if strip else into


def _wanted(member: tarfile.TarInfo) -> bool:
    """What the reader may look at: the whole of a large recording would take seconds to unpack."""
    return _LOOKED_AT.search(member.name) is not None


def _expected(recordings: Path, archive: str) -> Any:  # noqa: ANN401 -- JSON
    answers = json.loads((recordings / "sysfs/expected.json").read_text())
    return answers[archive]


_SMALL = (
    TWO_NUMA
    + ONE_HCA
    + """
gpu pci0000:15/0000:15:02.0/0000:17:00.0 numa=0 model="NVIDIA H800" uuid=GPU-8b938a01
topology
"""
)
_GARBAGE = (b"", b"\xff\xfe\0\n", b"-1\n", b"0x\n", b"9" * 5000, b"231:99999999999999999999", b"\n\n", b"1,2-:;\n")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of a small machine, lent to many examples, each of which leaves it as it was."""
    return tree(_SMALL, tmp_path_factory.mktemp("small") / "root")


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_tree_makes_discovery_raise(small: Path, data: st.DataObject) -> None:
    """Whatever is deleted, emptied or garbled in a tree, it is read, understood and told as JSON (B-DP-56)."""
    paths = sorted(str(path.relative_to(small)) for path in small.rglob("*"))
    changes = st.tuples(st.sampled_from(paths), st.sampled_from([None, *_GARBAGE]))
    with ExitStack() as undo:
        for path, content in data.draw(st.lists(changes, min_size=1, max_size=6)):
            _mutate(small / path, content, undo)
        machine = seen(small)
    assert {hca.numa_node for hca in machine.hcas} <= {None, 0, 1}
    assert msgspec.json.encode(machine)


def _mutate(path: Path, content: bytes | None, undo: ExitStack) -> None:
    """Delete what is there, or make it a file with ``content``; a path that is gone already stays gone."""
    if os.path.lexists(path):
        aside = Path(tempfile.mkdtemp(dir=_above_root(path))) / "aside"
        undo.callback(aside.parent.rmdir)
        path.rename(aside)
        undo.callback(aside.rename, path)
    if content is not None and path.parent.is_dir():
        path.write_bytes(content)
        undo.callback(path.unlink)


def _above_root(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.name == "root").parent
