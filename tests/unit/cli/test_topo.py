import io

import pytest
from rich.console import Console, RenderableType
from tests.unit.builders import gpu, hca, machine, port

from railside_cli.topo import answer, gpu_names, picture, verdict
from railside_proto.machine import Excluded, LinkLayer, Machine, NetnsMode, PciAddress, PortState
from railside_proto.reasons import Code, reason

_BOND = Excluded(name="mlx5_bond_0", reason=reason(Code.ETHERNET_LINK, device="mlx5_bond_0"))


def _drawn(thing: RenderableType, width: int = 160) -> list[str]:
    """What a person reads, line by line, blanks made single."""
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(thing)
    return [" ".join(line.split()) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(Machine(), "0 of 0 HCAs sound, 0 left out; no GPU; 0 NUMA nodes", id="nothing"),
        pytest.param(
            machine(hca(1), excluded=(_BOND,)), "1 of 1 HCA sound, 1 left out; no GPU; 2 NUMA nodes", id="no-gpu"
        ),
        pytest.param(
            machine(hca(1), gpus=(gpu(9, ("pci0000:09",)),)),
            "1 of 1 HCA sound, 0 left out; 1 GPU, 0 beside an HCA; 2 NUMA nodes",
            id="far",
        ),
    ],
)
def test_the_verdict_is_one_line(seen: Machine, expected: str) -> None:
    """The verdict counts what there is."""
    assert expected == verdict(seen)


def test_the_verdict_of_our_machine(our_machine: Machine) -> None:
    """Every GPU of our machine has an HCA beside it."""
    expected = "8 of 8 HCAs sound, 1 left out; 8 GPUs, 8 beside an HCA; 2 NUMA nodes"
    assert expected == verdict(our_machine)


def test_the_matrix_of_our_machine(our_machine: Machine) -> None:
    """Below the tree stands the matrix that people know from ``nvidia-smi topo -m``."""
    lines = _drawn(picture(our_machine))
    header = "mlx5_0 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7 mlx5_8 mlx5_9"
    assert lines[lines.index(header) + 1] == "GPU0 PIX NODE NODE NODE SYS SYS SYS SYS"


def test_the_tree_of_our_machine(our_machine: Machine) -> None:
    """A switch stands above the GPU and the HCA that share it, and ends with their ports."""
    lines = _drawn(picture(our_machine))
    switch = next(index for index, line in enumerate(lines) if "switch 0000:16:00.0" in line)
    assert "GPU0 0000:18:00.0 NVIDIA H800" in lines[switch + 1]
    assert "mlx5_0 0000:1a:00.0 uverbs0 400 Gb/s ACTIVE" in lines[switch + 2]


def test_what_is_left_out_stands_last_with_its_reason(our_machine: Machine) -> None:
    """The bond is drawn with the reason's sentence (B-DP-5)."""
    *_, sentence, remedy = _drawn(picture(our_machine))
    assert sentence == "mlx5_bond_0 speaks Ethernet on every port; only InfiniBand is offered"
    assert remedy.startswith("nothing, if this is a storage or management port")


def test_an_hca_that_is_down_is_told() -> None:
    """An HCA whose port is down is drawn so, counted as not sound, and told with what to do (B-DP-37)."""
    seen = machine(hca(1, ports=(port(PortState.DOWN),)), hca(2))
    drawn = _drawn(picture(seen))
    assert verdict(seen) == "1 of 2 HCAs sound, 0 left out; no GPU; 2 NUMA nodes"
    assert "mlx5_1 has no active InfiniBand port (port 1 is DOWN)" in drawn
    assert "look at the cable, the switch port and the subnet manager" in drawn


def test_the_answer_for_programs_has_every_path(our_machine: Machine) -> None:
    """The JSON names the path class of each GPU and HCA, as the matrix shows it."""
    told = answer(our_machine)
    near = [paths for paths in told.paths.values() if list(paths.values()).count("PIX") == 1]
    assert (8, 8, verdict(our_machine)) == (len(told.paths), len(near), told.verdict)


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        pytest.param(machine(hca(1, None)), "NUMA node unknown", id="numa-node-unknown"),
        pytest.param(machine(hca(1, path=())), "place unknown", id="place-unknown"),
        pytest.param(machine(hca(1)), "pci0000:01", id="below-the-host-bridge"),
        pytest.param(
            machine(hca(1, path=("pci0000:01", "0000:01:01.0"))), "root port 0000:01:01.0", id="root-port"
        ),
        pytest.param(machine(), "NUMA 1 cpus 4-7", id="empty-numa-node"),
        pytest.param(
            machine(hca(1, ports=(port(PortState.DOWN), port(number=2, link_layer=LinkLayer.ETHERNET)))),
            "0 Gb/s DOWN, 0 Gb/s ACTIVE Ethernet",
            id="two-ports",
        ),
        pytest.param(machine(hca(1, silent=True)), "uverbs1 does not answer", id="silent"),
        pytest.param(
            machine(hca(1, parent=PciAddress("0000:02:00.0"))),
            "0 Gb/s ACTIVE virtual function of 0000:02:00.0",
            id="virtual-function",
        ),
        pytest.param(
            machine(hca(1, path=("cpu0", "ffff:ff:01.0"), told_by_file=True)),
            "switch ffff:ff:01.0 of virtualTopology.xml",
            id="place-that-the-file-tells",
        ),
        pytest.param(
            machine(hca(1, path=("pci0000:80", "0000:80:05.5", "pci10000:00"))), "pci10000:00", id="below-a-vmd"
        ),
        pytest.param(
            machine(hca(1, ports=(port(PortState.DOWN, phys_state="Polling"),))), "DOWN (Polling)", id="no-cable"
        ),
        pytest.param(
            machine(hca(1, ports=(port(PortState.INIT, phys_state="LinkUp"),))),
            "INIT (no subnet manager)",
            id="no-subnet-manager",
        ),
        pytest.param(
            machine(hca(1, ports=(port(PortState.INIT, sm_lid=1),))), "0 Gb/s INIT", id="subnet-manager-at-work"
        ),
        pytest.param(machine(hca(0xAB)), "0000:ab:00.0", id="address-that-is-no-emoji"),
        pytest.param(
            machine(hca(1), netns_mode=NetnsMode.EXCLUSIVE),
            reason(Code.NETNS_EXCLUSIVE).sentence,
            id="namespaces-exclusive",
        ),
        pytest.param(
            machine(hca(1), topology_problem=reason(Code.VIRTUAL_TOPOLOGY_UNREADABLE, detail="it is empty")),
            "virtualTopology.xml tells nothing: it is empty",
            id="file-that-tells-nothing",
        ),
    ],
)
def test_odd_machines_are_drawn(seen: Machine, line: str) -> None:
    """A machine of which little is known is drawn with what is known."""
    assert any(line in drawn for drawn in _drawn(picture(seen)))


def test_names_cannot_break_the_drawing() -> None:
    """What the kernel says is shown as it stands, not taken as markup."""
    assert any("[bold]x" in line for line in _drawn(picture(machine(hca(1, name="[bold]x")))))


def test_gpus_are_counted_by_address(our_machine: Machine) -> None:
    """GPU0 is the one of the lowest address, as NVIDIA's tools count."""
    names = gpu_names(our_machine)
    assert (names["0000:18:00.0"], names["0000:da:00.0"]) == ("GPU0", "GPU7")


def test_a_matrix_of_many_hcas_comes_in_pieces() -> None:
    """Sixteen HCAs do not fit beside each other on a usual terminal, and no cell may be cut off."""
    gpus = tuple(gpu(0x20 + number, ("pci0000:20",)) for number in range(8))
    lines = _drawn(picture(machine(*map(hca, range(16)), gpus=gpus)), width=80)
    headers = [line.split() for line in lines if line.startswith("mlx5_")]
    assert headers == [[f"mlx5_{number}" for number in piece] for piece in (range(8), range(8, 16))]
    assert [len(line.split()) for line in lines if line.startswith("GPU")] == [9] * 16


def test_reasons_of_one_kind_are_told_together() -> None:
    """Of a hundred functions without a driver three are named, with one remedy."""
    alike = tuple(
        Excluded(name=str(number), reason=reason(Code.NO_DRIVER, address=f"0000:16:00.{number}", parent=""))
        for number in range(8)
    )
    lines = _drawn(picture(machine(excluded=(*alike, _BOND))))
    told = [line for line in lines if "has no driver" in line]
    assert (len(told), "and 5 more of this kind" in lines) == (3, True)
    assert len([line for line in lines if line.startswith("nothing, if you use it")]) == 1
    assert any(line.startswith("mlx5_bond_0") for line in lines)
