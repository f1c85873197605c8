import io

import pytest
from rich.console import Console, RenderableType
from tests.conftest import MakeTree
from tests.unit.builders import gpu, hca, machine, port
from tests.unit.builders import seen as seen_at

from railside_cli.exit_status import FINDING, FINE, UNREACHABLE
from railside_cli.topo.headline import status, verdict
from railside_cli.topo.matrix import Matrix
from railside_cli.topo.picture import answer, picture
from railside_cli.topo.tree import gpu_names
from railside_proto.machine import Excluded, LinkLayer, Machine, NetnsMode, PciAddress, PortState
from railside_proto.reasons import Code, reason

_BOND = Excluded(name="mlx5_bond_0", reason=reason(Code.ETHERNET_LINK, device="mlx5_bond_0"))
_FUNCTION = Excluded(name="0000:16:00.0", reason=reason(Code.NO_DRIVER, address="0000:16:00.0", parent=""))


def _lines(thing: RenderableType, width: int = 160) -> list[str]:
    """What a person reads, line by line."""
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(thing)
    return stream.getvalue().splitlines()


def _drawn(thing: RenderableType, width: int = 160) -> list[str]:
    """The same, blanks made single."""
    return [" ".join(line.split()) for line in _lines(thing, width)]


@pytest.mark.parametrize(
    ("seen", "expected", "ends"),
    [
        pytest.param(Machine(), "no HCA found; no GPU; 0 NUMA nodes", UNREACHABLE, id="nothing"),
        pytest.param(
            Machine(excluded=(_FUNCTION,)),
            "no HCA found, 1 left out; no GPU; 0 NUMA nodes",
            FINDING,
            id="no-driver",
        ),
        pytest.param(
            Machine(excluded=(_BOND,)), "no HCA to offer, 1 left out; no GPU; 0 NUMA nodes", FINDING, id="no-use"
        ),
        pytest.param(
            machine(hca(1), excluded=(_BOND,)),
            "1 of 1 HCA sound, 1 left out; no GPU; 2 NUMA nodes",
            FINE,
            id="no-gpu",
        ),
        pytest.param(
            machine(hca(1), gpus=(gpu(9, ("pci0000:09",)),)),
            "1 of 1 HCA sound, 0 left out; 1 GPU, 0 beside an HCA; 2 NUMA nodes",
            FINE,
            id="far",
        ),
        pytest.param(
            machine(hca(1), hca(2), netns_mode=NetnsMode.EXCLUSIVE),
            "0 of 2 HCAs sound, 0 left out; no GPU; 2 NUMA nodes",
            FINDING,
            id="no-pod-could-use-them",
        ),
        pytest.param(
            machine(hca(1, ports=(port(PortState.DOWN),)), hca(2)),
            "1 of 2 HCAs sound, 0 left out; no GPU; 2 NUMA nodes",
            FINDING,
            id="one-is-down",
        ),
    ],
)
def test_the_verdict_is_one_line(seen: Machine, expected: str, ends: int) -> None:
    """The verdict counts what there is and what pods could use, and the exit status says the same."""
    assert (verdict(seen), status(seen)) == (expected, ends)


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


def test_a_gpu_that_is_a_switch_further_down_stands_below_its_hcas_switch(make_tree: MakeTree) -> None:
    """The switch that makes a GPU count as beside an HCA is drawn, with the GPU's own switch on it."""
    lines = _lines(picture(seen_at(make_tree("amd"))))
    assert lines[2:6] == [
        "├── switch 0000:06:00.0",
        "│   ├── mlx5_0        0000:0a:00.0  uverbs0  400 Gb/s ACTIVE",
        "│   └── switch 0000:07:00.0",
        "│       └── GPU0          0000:09:00.0",
    ]


def test_what_is_left_out_stands_last_with_its_reason(our_machine: Machine) -> None:
    """The bond is drawn with the reason's sentence (B-DP-5)."""
    *_, sentence, remedy = _drawn(picture(our_machine))
    assert sentence == "mlx5_bond_0 speaks Ethernet on every port; only InfiniBand is offered"
    assert remedy.startswith("do nothing if this is a storage or management port")


def test_an_hca_that_is_down_is_told() -> None:
    """An HCA whose port is down is drawn so, counted as not sound, and told with what to do (B-DP-37)."""
    seen = machine(hca(1, ports=(port(PortState.DOWN),)), hca(2))
    drawn = _drawn(picture(seen))
    assert drawn[0] == "1 of 2 HCAs sound, 0 left out; no GPU; 2 NUMA nodes"
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


@pytest.mark.parametrize(("width", "sizes"), [(80, [8]), (60, [4, 4]), (40, [4, 4]), (24, [2] * 4), (12, [1] * 8)])
def test_a_narrow_terminal_gets_the_matrix_in_more_pieces(
    our_machine: Machine, width: int, sizes: list[int]
) -> None:
    """However narrow it is, every HCA and GPU has its whole name, and no line is longer or has trailing blanks."""
    lines = _lines(Matrix(our_machine), width)
    heads = [line.split() for line in lines if "mlx5" in line]
    assert [len(head) for head in heads] == sizes
    assert [name for head in heads for name in head] == [hca.name for hca in our_machine.hcas]
    assert [line.split()[0] for line in lines if "GPU" in line] == list(gpu_names(our_machine).values()) * len(
        heads
    )
    assert max(map(len, lines)) <= width
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize("width", [80, 60, 40, 30])
def test_no_width_cuts_anything_off(our_machine: Machine, width: int) -> None:
    """The whole picture has the same words at every width, in lines that fit, and without trailing blanks."""
    bars = str.maketrans("│├└─", "    ")
    lines, wide = _lines(picture(our_machine), width), _lines(picture(our_machine))
    first = next(number for number, line in enumerate(lines) if not line)
    words = [word for line in lines[:first] for word in line.translate(bars).split()]
    assert words == [word for line in wide[: wide.index("")] for word in line.translate(bars).split()]
    assert max(map(len, lines)) <= width
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_gpu_of_unknown_model_leaves_no_blanks_behind() -> None:
    """A line ends with its last word."""
    (line,) = (line for line in _lines(picture(machine(gpus=(gpu(9, ("pci0000:09",)),)))) if "GPU0" in line)
    assert line == line.rstrip()


def test_reasons_and_remedies_hang() -> None:
    """What is too long goes on below its beginning: a remedy where it began, its sentence further in."""
    lines = _lines(picture(machine(hca(1), netns_mode=NetnsMode.EXCLUSIVE)), width=60)
    assert lines[lines.index("") + 1 :] == [
        "RDMA devices are seen by one network namespace alone",
        "    here (mode exclusive), so pods could not use them",
        "  run rdma system set netns shared while no pod runs;",
        "  netns_mode=1 for ib_core in modprobe.d keeps it so",
    ]


def test_a_machine_without_hcas_says_what_to_do_if_it_has_some() -> None:
    """Where the kernel shows nothing, the reason and its remedy stand last."""
    *_, sentence, remedy = _drawn(picture(Machine()))
    assert sentence.startswith("this kernel shows no RDMA devices")
    assert remedy.startswith("if this machine has HCAs, load their driver")


def test_what_is_left_out_tells_why_there_is_no_hca() -> None:
    """Where every device is left out, each one's reason is told, and none of them twice."""
    drawn = _drawn(picture(Machine(excluded=(_BOND,))))
    assert len([line for line in drawn if "speaks Ethernet" in line]) == 1


def test_reasons_of_one_kind_are_told_together() -> None:
    """Of a hundred functions without a driver three are named, with one remedy."""
    alike = tuple(
        Excluded(name=str(number), reason=reason(Code.NO_DRIVER, address=f"0000:16:00.{number}", parent=""))
        for number in range(8)
    )
    lines = _drawn(picture(machine(excluded=(*alike, _BOND))))
    told = [line for line in lines if "has no driver" in line]
    assert (len(told), "and 5 more of this kind" in lines) == (3, True)
    assert len([line for line in lines if line.startswith("do nothing if you use it")]) == 1
    assert any(line.startswith("mlx5_bond_0") for line in lines)
