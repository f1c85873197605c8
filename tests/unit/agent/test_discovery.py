import os
import shutil
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.situations import POOL, RULES
from tests.unit.builders import (
    ETHERNET,
    FUNCTION,
    INFINIBAND,
    ONE_HCA,
    RDMA,
    TWO_NUMA,
    hca_names,
    left_out,
    one_device,
    seen,
    tree,
)

from railside_agent.kubelet_messages import device_list
from railside_agent.seats import Books, offer
from railside_agent.situation import Situation
from railside_proto.machine import DeviceNode, NetnsMode, PortState
from railside_proto.reasons import Code
from railside_sim.stand_in_nodes import StandInNodes


@pytest.mark.parametrize(
    ("text", "hcas", "excluded"),
    [
        pytest.param(one_device(INFINIBAND), ["mlx5_0"], {}, id="B-DP-1-no-rdma_cm"),
        pytest.param(one_device(INFINIBAND), ["mlx5_0"], {}, id="B-DP-2-no-umad-and-issm"),
        pytest.param(one_device(ETHERNET), [], {"mlx5_0": Code.ETHERNET_LINK}, id="B-DP-5-flipped-to-ethernet"),
        pytest.param(one_device(INFINIBAND, ETHERNET), ["mlx5_0"], {}, id="B-DP-5-one-port-of-two-flipped"),
        pytest.param(
            one_device(INFINIBAND, "link=InfiniBand state=DOWN"), ["mlx5_0"], {}, id="B-DP-10-one-port-of-two-down"
        ),
        pytest.param(
            one_device(INFINIBAND, facts="uverbs=0 class=0x00ff00"), ["mlx5_0"], {}, id="B-DP-11-odd-pci-class"
        ),
        pytest.param(
            one_device(INFINIBAND)
            + "\npci pci0000:15/0000:15:02.0/0000:17:00.0 numa=0 vendor=0x15b3 device=0x101e"
            " class=0x020700",
            ["mlx5_0"],
            {"0000:17:00.0": Code.NO_DRIVER},
            id="B-DP-12-function-without-driver",
        ),
        pytest.param(
            one_device(INFINIBAND)
            + "\npci pci0000:15/0000:15:02.0/0000:17:00.0 numa=0 vendor=0x15b3 device=0x1021"
            " class=0x020700 driver=mlx5_core",
            ["mlx5_0"],
            {"0000:17:00.0": Code.NO_RDMA_DEVICE},
            id="B-DP-40-device-in-another-namespace",
        ),
        pytest.param(
            one_device(INFINIBAND)
            + "\npci pci0000:15/0000:15:02.0/0000:17:00.0 numa=0 vendor=0x15b3 device=0x101e"
            " class=0x020000 physfn=0000:16:00.0",
            ["mlx5_0"],
            {"0000:17:00.0": Code.NO_DRIVER},
            id="B-DP-12-unbound-virtual-function-of-an-ethernet-class",
        ),
        pytest.param(
            one_device(INFINIBAND)
            + "\npci pci0000:15/0000:15:02.0/0000:17:00.0 numa=0 vendor=0x8086 device=0x1592"
            " class=0x020000 driver=ice",
            ["mlx5_0"],
            {},
            id="B-DP-17-network-card-without-rdma",
        ),
        pytest.param(
            one_device(INFINIBAND, facts="uverbs=0 driver=''"),
            ["mlx5_0"],
            {},
            id="B-DP-12-hca-without-driver-link",
        ),
        pytest.param(
            one_device(INFINIBAND) + "\nwithout dev/infiniband/uverbs0",
            [],
            {"mlx5_0": Code.UVERBS_MISSING},
            id="B-DP-3-node-not-made-yet",
        ),
        pytest.param(
            one_device(INFINIBAND, facts=""), [], {"mlx5_0": Code.UVERBS_MISSING}, id="B-DP-3-ib_uverbs-not-loaded"
        ),
        pytest.param(
            one_device(INFINIBAND) + f"\nwithout sys/devices/{FUNCTION}/infiniband_verbs/uverbs0/dev",
            [],
            {"mlx5_0": Code.UVERBS_MISSING},
            id="B-DP-3-no-numbers",
        ),
        pytest.param(
            one_device(INFINIBAND) + '\nfile dev/infiniband/uverbs0 "c 231:200 0666 0 0\\n"',
            [],
            {"mlx5_0": Code.UVERBS_NUMBERS_DIFFER},
            id="B-DP-14-stale-node",
        ),
        pytest.param(
            one_device(INFINIBAND) + '\nfile dev/infiniband/uverbs0 "no node"',
            [],
            {"mlx5_0": Code.UVERBS_MISSING},
            id="B-DP-14-something-else-in-its-place",
        ),
        pytest.param(
            one_device(INFINIBAND) + "\nlink sys/class/infiniband/scif0 ../../devices/virtual/scif0",
            ["mlx5_0"],
            {},
            id="dangling-class-entry",
        ),
        pytest.param(one_device(), [], {"mlx5_0": Code.NO_PORTS}, id="no-ports"),
        pytest.param(
            one_device("link=Unspecified state=DOWN"),
            [],
            {"mlx5_0": Code.LINK_LAYER_UNKNOWN},
            id="link-layer-unknown",
        ),
        pytest.param(
            one_device(INFINIBAND) + f"\nwithout {RDMA}/ports/1/link_layer",
            [],
            {"mlx5_0": Code.LINK_LAYER_UNKNOWN},
            id="link-layer-not-readable",
        ),
        pytest.param(
            TWO_NUMA + f"hca virtual name=rxe0 guid=5c25:7303:00a1:4c10 uverbs=0\nport rxe0 1 {INFINIBAND}",
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
    assert (hcas, excluded) == (hca_names(machine), left_out(machine))


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
    _, made = offer(Situation(machine=found), Books(), POOL, RULES)
    assert len(found.hcas) == len(device_list(made).devices)
    assert msgspec.json.encode(found)


def _with_twins(root: Path, *names: str) -> Path:
    """The machine of one HCA with further RDMA devices on its function."""
    place = root / "sys/class/infiniband/mlx5_0"
    real = place.resolve()
    for number, name in enumerate(names, start=7):
        shutil.copytree(real, real.with_name(name), symlinks=True)
        place.with_name(name).symlink_to(real.with_name(name))
        verbs = root / f"sys/class/infiniband_verbs/uverbs{number}"
        verbs.mkdir()
        (verbs / "ibdev").write_text(f"{name}\n")
        (verbs / "dev").write_text(f"231:{192 + number}\n")
        node = DeviceNode(name=f"uverbs{number}", major=231, minor=192 + number)
        StandInNodes().make(root / f"dev/infiniband/uverbs{number}", node)
    return root


def test_two_devices_on_one_function_are_one_hca(tmp_path: Path) -> None:
    """A function with a second RDMA device is offered once, and the second is told (B-DP-9)."""
    found = seen(_with_twins(tree(TWO_NUMA + ONE_HCA, tmp_path), "mlx5_7"))
    assert (hca_names(found), left_out(found)) == (["mlx5_0"], {"mlx5_7": Code.SAME_FUNCTION})


def test_capacity_is_the_hcas_that_are_there(tmp_path: Path) -> None:
    """A machine of one HCA shows one (B-DP-4)."""
    assert len(seen(tree(TWO_NUMA + ONE_HCA, tmp_path)).hcas) == 1


def test_a_dual_port_hca_is_one_hca_with_the_state_of_each_port(tmp_path: Path) -> None:
    """Ports are told apart and HCAs are counted, not ports (B-DP-10)."""
    (hca,) = seen(tree(one_device(INFINIBAND, "link=InfiniBand state=DOWN"), tmp_path)).hcas
    assert [(port.number, port.state) for port in hca.ports] == [(1, PortState.ACTIVE), (2, PortState.DOWN)]


def test_two_devices_are_picked_by_name_among_those_that_are_complete(tmp_path: Path) -> None:
    """Of a function's devices the lowest name counts, by its number; one without a node does not (B-DP-9)."""
    root = _with_twins(tree(TWO_NUMA + ONE_HCA, tmp_path), "mlx5_2", "mlx5_10")
    before = hca_names(seen(root))
    (root / "dev/infiniband/uverbs0").unlink()
    found = seen(root)
    assert (before, hca_names(found)) == (["mlx5_0"], ["mlx5_2"])
    assert left_out(found) == {"mlx5_0": Code.UVERBS_MISSING, "mlx5_10": Code.SAME_FUNCTION}


def test_the_mode_of_network_namespaces_is_told(tmp_path: Path) -> None:
    """In exclusive mode pods could use nothing, which whoever offers must know (B-DP-45)."""
    exclusive = seen(tree(f"{TWO_NUMA}{ONE_HCA}netns exclusive", tmp_path))
    assert (exclusive.netns_mode, hca_names(exclusive)) == (NetnsMode.EXCLUSIVE, ["mlx5_0"])
