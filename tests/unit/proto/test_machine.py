from pathlib import Path

import msgspec
import pytest

from railside_proto.machine import Function, Machine, PathClass, PciAddress, bridges, by_address, path_class

_SWITCH = ("pci0000:15", "0000:15:01.0", "0000:16:00.0")
_PORT = (*_SWITCH, "0000:17:00.0")


def _function(*path: str, numa_node: int | None = 0) -> Function:
    return Function(address=PciAddress("0000:aa:00.0"), path=path, numa_node=numa_node)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(_function(*_PORT), _function(*_PORT), PathClass.PIX, id="functions-of-one-device"),
        pytest.param(_function(*_PORT), _function(*_SWITCH, "0000:17:01.0"), PathClass.PIX, id="one-switch"),
        pytest.param(_function(*_SWITCH[:2]), _function(*_SWITCH[:2]), PathClass.PIX, id="one-root-port"),
        pytest.param(
            _function(*_PORT),
            _function(*_SWITCH, "0000:17:01.0", "0000:18:00.0", "0000:19:00.0"),
            PathClass.PXB,
            id="switch-behind-switch",
        ),
        pytest.param(
            _function(*_SWITCH[:2], "0000:16:00.0", "0000:17:00.0"),
            _function(*_SWITCH[:2], "0000:16:00.1", "0000:18:00.0"),
            PathClass.PXB,
            id="two-switches-of-one-root-port",
        ),
        pytest.param(
            _function(*_PORT), _function("pci0000:15", "0000:15:02.0"), PathClass.PHB, id="two-root-ports"
        ),
        pytest.param(_function("pci0000:15"), _function("pci0000:15"), PathClass.PHB, id="below-the-host-bridge"),
        pytest.param(_function("pci0000:15"), _function(*_PORT), PathClass.PHB, id="one-below-the-host-bridge"),
        pytest.param(_function(*_PORT), _function("pci0000:26"), PathClass.NODE, id="one-numa-node"),
        pytest.param(_function(*_PORT), _function("pci0000:97", numa_node=1), PathClass.SYS, id="other-numa-node"),
        pytest.param(
            _function("pci0000:15", numa_node=None),
            _function("pci0000:26", numa_node=None),
            PathClass.SYS,
            id="numa-node-unknown",
        ),
        pytest.param(_function(), _function(), PathClass.NODE, id="no-path-one-numa-node"),
        pytest.param(_function(numa_node=None), _function(numa_node=None), PathClass.SYS, id="nothing-known"),
    ],
)
def test_path_class(one: Function, other: Function, expected: PathClass) -> None:
    """The class of a path is that of ``nvidia-smi topo -m``, the same in both directions."""
    assert expected == path_class(one, other)
    assert expected == path_class(other, one)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (_PORT, _PORT[1:]),
        (("pci0000:15",), ()),
        ((), ()),
        (("cpu0", "ffff:ff:01.0"), ("ffff:ff:01.0",)),
        (("pci0000:80", "0000:80:05.5", "pci10000:00", "10000:00:01.0"), ("10000:00:01.0",)),
        (("ffff:ff:01.0",), ("ffff:ff:01.0",)),
    ],
)
def test_bridges_are_those_below_the_last_host_bridge(path: tuple[str, ...], expected: tuple[str, ...]) -> None:
    """A host bridge is no bridge, and what is above one of a controller's own does not join two paths."""
    assert expected == bridges(path)


def test_addresses_sort_as_the_kernel_counts_them() -> None:
    """A domain of five digits comes after all of four digits, and after devices without a function."""
    addresses = ["10000:01:00.0", "fffe:01:00.0", "0000:af:00.0", "0000:1a:00.0", "guid:5c25:7303:00a1:4c10"]
    expected = ["0000:1a:00.0", "0000:af:00.0", "fffe:01:00.0", "guid:5c25:7303:00a1:4c10", "10000:01:00.0"]
    assert expected == sorted(map(PciAddress, addresses), key=by_address)


def test_path_classes_are_ordered_nearest_first() -> None:
    """A nearer path compares as less, so that the nearest of several is their minimum."""
    expected = [PathClass.PIX, PathClass.PXB, PathClass.PHB, PathClass.NODE, PathClass.SYS]
    assert expected == sorted(PathClass)


def test_our_machine_is_as_near_as_the_recorded_one(our_machine: Machine, recordings: Path) -> None:
    """Every cell from GPU to HCA is the one that ``nvidia-smi topo -m`` printed on such a machine (B-DP-48)."""
    expected = _recorded_matrix((recordings / "topo-matrix/h800-8gpu-8ib-1bond.txt").read_text())
    matrix = {
        f"GPU{number}": {hca.name: path_class(gpu, hca).name for hca in our_machine.hcas}
        for number, gpu in enumerate(our_machine.gpus)
    }
    assert expected == matrix


def test_the_nearest_hca_of_each_gpu(our_machine: Machine, recordings: Path) -> None:
    """Each GPU's best class and the HCAs of that class are those of the recorded machine (B-DP-48)."""
    answers = msgspec.json.decode((recordings / "topo-matrix/expected.json").read_bytes())
    expected = {
        name: (gpu["numa"], gpu["best"], gpu["nics"])
        for name, gpu in answers["h800-8gpu-8ib-1bond.txt"]["gpus"].items()
    }
    found = {}
    for number, gpu in enumerate(our_machine.gpus):
        classes = {hca.name: path_class(gpu, hca) for hca in our_machine.hcas}
        best = min(classes.values())
        nearest = [name for name, path in classes.items() if path is best]
        found[f"GPU{number}"] = (gpu.numa_node, best.name, nearest)
    assert expected == found


def _recorded_matrix(text: str) -> dict[str, dict[str, str]]:
    """The InfiniBand cells by GPU and HCA name; the bond speaks Ethernet and is no HCA here."""
    header, *rows = [line.split() for line in text.splitlines() if line.strip()]
    legend = {row[0].rstrip(":"): row[1] for row in rows if len(row) == 2 and row[0].startswith("NIC")}
    return {
        row[0]: {
            legend[column]: cell
            for column, cell in zip(header, row[1:], strict=False)
            if column.startswith("NIC") and "bond" not in legend[column]
        }
        for row in rows
        if row[0].startswith("GPU")
    }
