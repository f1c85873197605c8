import re
from itertools import pairwise
from pathlib import Path

import pytest
from tests.unit.builders import TWO_NUMA, hca_names, left_out, seen, tree
from tests.unit.matrices import Matrix, machine_of, matrix_of
from tests.unit.recorded import expected

from railside_proto.machine import Hca, LinkLayer, Machine, path_class
from railside_proto.pool import Selector
from railside_proto.reasons import Code

_FILES = (
    "gke-a4-b200-8gpu-8nic.txt",
    "h200-8gpu-12nic-pxb.txt",
    "h800-8gpu-8ib-1bond.txt",
    "numa-off-8gpu-12nic.txt",
)
_BOTH = (Selector(), Selector(link_layer=LinkLayer.ETHERNET))
_LSPCI = "lspci-nn-azure-ndv4-a100.txt"
_NETDEVS = "ibdev2netdev-mixed-12hca.txt"


def test_every_recorded_dump_has_a_test(recordings: Path) -> None:
    """A dump that somebody adds belongs into the list here, or needs its own test."""
    assert {*_FILES, _LSPCI, _NETDEVS} == {path.name for path in (recordings / "topo-matrix").glob("*.txt")}


@pytest.fixture(scope="module", params=_FILES)
def file(request: pytest.FixtureRequest) -> str:
    """One of the recorded matrices."""
    return str(request.param)


@pytest.fixture(scope="module")
def told(recordings: Path, file: str) -> Matrix:
    """What the tool printed."""
    return matrix_of((recordings / "topo-matrix" / file).read_text())


@pytest.fixture(scope="module")
def machine(told: Matrix, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """What the agent sees of a machine with the relations of the matrix."""
    return seen(tree(machine_of(told), tmp_path_factory.mktemp("matrix")), *_BOTH)


def test_a_machine_with_the_relations_of_the_matrix(told: Matrix, machine: Machine) -> None:
    """Every cell between GPUs and HCAs is the one that ``nvidia-smi topo -m`` printed (B-DP-48)."""
    hcas = {hca.name: hca for hca in machine.hcas}
    gpus = {f"GPU{number}": gpu for number, gpu in enumerate(machine.gpus)}
    rows = {name: {nic: path_class(gpu, hcas[nic]).name for nic in told.nics} for name, gpu in gpus.items()}
    between = {nic: _others(nic, hcas) for nic in told.nics}
    assert (_cells(told, told.gpus), _cells(told, told.nics)) == (rows, between)


def test_the_nearest_hcas_of_each_gpu(recordings: Path, machine: Machine, file: str) -> None:
    """Each GPU's NUMA node, best class, and HCAs of that class are those of the recorded machine (B-DP-48)."""
    found = {}
    for number, gpu in enumerate(machine.gpus):
        classes = {hca.name: path_class(gpu, hca) for hca in machine.hcas}
        best = min(classes.values())
        found[f"GPU{number}"] = (gpu.numa_node, best.name, {nic for nic, path in classes.items() if path is best})
    answers = expected(recordings, "topo-matrix", file)["gpus"]
    assert found == {name: (gpu["numa"], gpu["best"], set(gpu["nics"])) for name, gpu in answers.items()}


def test_gpus_hcas_and_switches_of_lspci(recordings: Path, tmp_path: Path) -> None:
    """Of NVIDIA's functions the 3D controllers are GPUs and the bridges none; disks are nobody's business."""
    functions = _lspci(recordings)
    machine = seen(tree(TWO_NUMA + "\n".join(_as_line(*function) for function in functions), tmp_path))
    addresses = {name: [one[0] for one in functions if one[1:3] == name] for name in _KINDS}
    assert [gpu.address for gpu in machine.gpus] == addresses["0302", "10de"]
    assert [hca.address for hca in machine.hcas] == addresses["0207", "15b3"]
    assert (len(machine.gpus), len(machine.hcas), len(addresses["0680", "10de"])) == (8, 8, 6)
    assert set(left_out(machine).values()) == {Code.ETHERNET_LINK}


def test_before_the_driver_is_loaded_every_hca_of_lspci_is_told(recordings: Path, tmp_path: Path) -> None:
    """Functions of InfiniBand's class without a driver are not silently missing (B-DP-12, B-DP-15)."""
    lines = [
        f"pci pci{address.partition(':')[0]}:00/{address} numa=0 vendor=0x{vendor} device=0x{device}"
        f" class=0x{kind}00"
        for address, kind, vendor, device in _lspci(recordings)
    ]
    machine = seen(tree(TWO_NUMA + "\n".join(lines), tmp_path))
    assert list(left_out(machine).values()) == [Code.NO_DRIVER] * 8


def test_network_devices_that_are_down_say_nothing_of_hcas(recordings: Path, tmp_path: Path) -> None:
    """All eight InfiniBand HCAs are offered though their IPoIB devices are Down, Ethernet's are not (B-DP-17)."""
    text = (recordings / "topo-matrix" / _NETDEVS).read_text()
    found = re.findall(r"^(\S+) +port +1 +==> +(\S+)", text, re.MULTILINE)
    machine = seen(tree(TWO_NUMA + "\n".join(_netdev_lines(*one) for one in found), tmp_path))
    infiniband = {name for name, netdev in found if netdev.startswith("ib")}
    buses = [int(hca.address.split(":")[1], 16) for hca in machine.hcas]
    assert (set(hca_names(machine)), len(infiniband)) == (infiniband, 8)
    assert set(left_out(machine)) == {name for name, _ in found} - infiniband
    assert all(one < other for one, other in pairwise(buses))


_KINDS = (("0302", "10de"), ("0207", "15b3"), ("0680", "10de"))


def _others(nic: str, hcas: dict[str, Hca]) -> dict[str, str]:
    return {other: path_class(hcas[nic], hca).name for other, hca in hcas.items() if other != nic}


def _cells(told: Matrix, names: tuple[str, ...]) -> dict[str, dict[str, str]]:
    return {name: {nic: told.cells[name, nic] for nic in told.nics if nic != name} for name in names}


def _lspci(recordings: Path) -> list[tuple[str, str, str, str]]:
    """Address, class, vendor and device of each function."""
    text = (recordings / "topo-matrix" / _LSPCI).read_text()
    return re.findall(r"^(\S+) .*?\[(\w{4})\]: .*\[(\w{4}):(\w{4})\]", text, re.MULTILINE)


def _as_line(address: str, kind: str, vendor: str, device: str) -> str:
    """The line of a manifest: each function right below the host bridge of its own domain, as it is there."""
    ids = f"vendor=0x{vendor} device=0x{device} class=0x{kind}00"
    path = f"pci{address.partition(':')[0]}:00/{address}"
    if vendor != "15b3":
        return f"pci {path} numa=0 {ids} driver=some"
    number = int(address.partition(":")[0], 16)
    link = "InfiniBand" if kind == "0207" else "Ethernet"
    port = f"port mlx5_{number} 1 link={link} state=ACTIVE"
    return f"hca {path} numa=0 name=mlx5_{number} uverbs={number} guid=0015:5dff:fe33:{number:04x} {ids}\n{port}"


def _netdev_lines(name: str, netdev: str) -> str:
    """An HCA at the place that its network device is named after: bus, slot and function in decimal."""
    bus, slot, function = re.fullmatch(r"(?:ib|en)p(\d+)s(\d+)(?:f(\d)np\d)?", netdev).groups(default="0")  # type: ignore[union-attr]
    path = (
        f"pci0000:00/0000:00:{int(bus) % 32:02x}.{int(bus) // 32}/0000:{int(bus):02x}:{int(slot):02x}.{function}"
    )
    number = name.removeprefix("mlx5_")
    link = "InfiniBand" if netdev.startswith("ib") else "Ethernet"
    guid = f"5c25:7303:00a1:{int(number):04x}"
    return f"hca {path} numa=0 name={name} uverbs={number} guid={guid}\nport {name} 1 link={link} state=ACTIVE"
