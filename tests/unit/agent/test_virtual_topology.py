from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.builders import INFINIBAND, TWO_NUMA, one_device, seen, tree

from railside_agent.virtual_topology import (
    DEEPEST,
    MOST_ELEMENTS,
    ToldPlace,
    TopologySource,
    VirtualTopology,
    virtual_topology,
)
from railside_proto.machine import Machine, PathClass, PciAddress, path_class
from railside_proto.reasons import Code, Reason

_GPU = '<pci busid="0000:18:00.0" class="0x030200"/>'
_HCA = '<pci busid="0000:16:00.0" class="0x020700"/>'
_SWITCH = f'<pci busid="ffff:ff:01.0" class="0x060400">{_GPU}{_HCA}</pci>'
_FLAT = "pci0000:00/0000:00:05.0/0000:16:00.0"
_FLAT_GPU = "gpu pci0000:00/0000:00:06.0/0000:18:00.0"


def _system(*cpus: str) -> str:
    inner = "".join(f'<cpu numaid="{number}">{cpu}</cpu>' for number, cpu in enumerate(cpus))
    return f'<?xml version="1.0"?><system version="1">{inner}</system>'


def _places(text: str) -> dict[str, ToldPlace]:
    told = virtual_topology(text)
    assert isinstance(told, VirtualTopology)
    return {str(address): place for address, place in told.places.items()}


def _place(*path: str, numa_node: int | None = 0) -> ToldPlace:
    return ToldPlace(path=path, numa_node=numa_node)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            _system("", _SWITCH),
            {
                "0000:18:00.0": _place("cpu1", "ffff:ff:01.0", numa_node=1),
                "0000:16:00.0": _place("cpu1", "ffff:ff:01.0", numa_node=1),
            },
            id="one-switch",
        ),
        pytest.param(_system(_HCA), {"0000:16:00.0": _place("cpu0")}, id="right-below-the-cpu"),
        pytest.param(
            _system(_HCA).replace("0000:16:00.0", "00000000:AF:00.0"),
            {"0000:af:00.0": _place("cpu0")},
            id="spelling",
        ),
        pytest.param(
            _system(_HCA).replace('"0"', '"-1"'),
            {"0000:16:00.0": _place("cpu", numa_node=None)},
            id="no-numa-node",
        ),
        pytest.param(
            _system('<nic><net name="eth0"/></nic><nvswitch/>' + _HCA),
            {"0000:16:00.0": _place("cpu0")},
            id="elements-of-no-interest",
        ),
        pytest.param(
            _system(_HCA.replace("/>", '><nic><net name="mlx5_0"/></nic></pci>')),
            {"0000:16:00.0": _place("cpu0")},
            id="nic-below-the-function",
        ),
        pytest.param(_system(_HCA, _HCA + _GPU), {"0000:18:00.0": _place("cpu1", numa_node=1)}, id="told-twice"),
        pytest.param(
            _system(f'<pci busid="nonsense">{_HCA}</pci>'),
            {"0000:16:00.0": _place("cpu0", "0000:00:00.0")},
            id="switch-without-address",
        ),
        pytest.param(
            _system(f'<pci busid="ffff:ff:01.0">{_GPU}</pci><pci busid="ffff:ff:01.0">{_HCA}</pci>'),
            {
                "0000:18:00.0": _place("cpu0", "ffff:ff:01.0"),
                "0000:16:00.0": _place("cpu0", "ffff:ff:01.0#2"),
            },
            id="two-switches-of-one-made-up-address",
        ),
        pytest.param(
            f"<system>{_SWITCH}</system>",
            {
                "0000:18:00.0": _place("ffff:ff:01.0", numa_node=None),
                "0000:16:00.0": _place("ffff:ff:01.0", numa_node=None),
            },
            id="no-cpu",
        ),
    ],
)
def test_places(text: str, expected: dict[str, ToldPlace]) -> None:
    """Every function that is told once has its switches and its NUMA node."""
    assert expected == _places(text)


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        pytest.param("", "it is not XML", id="empty"),
        pytest.param("\0\ufffd", "it is not XML", id="garbage"),
        pytest.param("\ud800", "it is not XML", id="half-a-letter"),
        pytest.param(_system(_SWITCH)[:-9], "it is not XML", id="cut-off"),
        pytest.param(_system(""), "it places no function", id="no-function"),
        pytest.param(_system('<pci busid="nonsense"/>'), "it places no function", id="no-address"),
        pytest.param("<a>" * (DEEPEST + 1), "it has more than", id="deep"),
        pytest.param(f"<a>{'<b/>' * MOST_ELEMENTS}</a>", "it has more than", id="long"),
        pytest.param("<a>" * 1_000_000, "it has more than", id="deep-enough-to-crash-a-recursion"),
        pytest.param(
            '<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><a>&c;</a>',
            "it declares a document type",
            id="entity-bomb",
        ),
        pytest.param(
            '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
            "it declares a document type",
            id="foreign-file",
        ),
        pytest.param("<a>&b;</a>", "it is not XML", id="unknown-entity"),
        pytest.param('<?xml version="1.0" encoding="none"?><a/>', "it ", id="unknown-encoding"),
    ],
)
def test_a_hostile_file_tells_nothing(text: str, detail: str) -> None:
    """Whatever is in the file, the answer is one Reason and never an exception."""
    why = virtual_topology(text)
    assert isinstance(why, Reason)
    assert (why.code, detail in why.sentence) == (Code.VIRTUAL_TOPOLOGY_UNREADABLE, True)
    assert why.sentence.isprintable()


@given(
    st.text()
    | st.lists(st.sampled_from([_SWITCH, _GPU, "<cpu>", "</cpu>", "<pci>", "&", "<!--", "\n"])).map("".join)
)
def test_any_text_is_an_answer(text: str) -> None:
    """No text makes the reader raise."""
    assert isinstance(virtual_topology(text), VirtualTopology | Reason)


def _machine(tmp_path: Path, text: str, told: str, source: TopologySource = TopologySource.AUTO) -> Machine:
    root = tree(text, tmp_path)
    file = root / "var/run/nvidia-topologyd/virtualTopology.xml"
    file.parent.mkdir(parents=True)
    file.write_text(told)
    return seen(root, topology=source)


@pytest.mark.parametrize(
    ("source", "shown", "expected"),
    [
        pytest.param(TopologySource.AUTO, -1, (1, PathClass.PIX, True), id="auto"),
        pytest.param(TopologySource.FILE, -1, (1, PathClass.PIX, True), id="file"),
        pytest.param(TopologySource.SYSFS, -1, (None, PathClass.PHB, False), id="sysfs"),
        pytest.param(TopologySource.AUTO, 0, (0, PathClass.PIX, True), id="sysfs-names-a-node"),
        pytest.param(
            TopologySource.AUTO, 7, (None, PathClass.PIX, True), id="sysfs-names-a-node-that-is-not-there"
        ),
    ],
)
def test_a_flat_machine(
    tmp_path: Path, source: TopologySource, shown: int, expected: tuple[int | None, PathClass, bool]
) -> None:
    """The file tells the path, and the NUMA node only where sysfs says none (B-DP-18, B-DP-48)."""
    text = one_device(INFINIBAND, path=_FLAT, numa=shown) + f"\n{_FLAT_GPU} numa={shown}"
    machine = _machine(tmp_path, text, _system("", _SWITCH), source)
    (hca,), (gpu,) = machine.hcas, machine.gpus
    assert expected == (hca.numa_node, path_class(gpu, hca), hca.told_by_file)
    assert (gpu.numa_node, gpu.told_by_file) == (hca.numa_node, hca.told_by_file)


def test_a_numa_node_that_the_machine_lacks_is_not_taken_from_the_file(tmp_path: Path) -> None:
    """A file for another machine type must not make a bad hint (B-DP-18)."""
    machine = _machine(tmp_path, one_device(INFINIBAND, path=_FLAT, numa=-1), _system("", "", "", _SWITCH))
    assert [hca.numa_node for hca in machine.hcas] == [None]


@pytest.mark.parametrize(
    ("source", "told"), [(TopologySource.AUTO, False), (TopologySource.SYSFS, False), (TopologySource.FILE, True)]
)
def test_a_tree_that_shows_its_switches(tmp_path: Path, source: TopologySource, *, told: bool) -> None:
    """Where the kernel shows switches and NUMA nodes it knows more than the file, unless told otherwise."""
    below = "pci0000:15/0000:15:01.0/0000:17:00.0/0000:1a:00.0"
    text = one_device(INFINIBAND, path=f"{below}/0000:16:00.0")
    (hca,) = _machine(tmp_path, text, _system(_SWITCH), source).hcas
    assert (hca.told_by_file, hca.path[0]) == (told, "cpu0" if told else "pci0000:15")


def test_what_the_file_does_not_place_keeps_its_path(tmp_path: Path) -> None:
    """Addresses are compared exactly: function 1 of a card is not function 0."""
    text = one_device(INFINIBAND, path=_FLAT.replace("16:00.0", "16:00.1"), numa=-1)
    (hca,) = _machine(tmp_path, text, _system(_SWITCH)).hcas
    assert (hca.path, hca.told_by_file, hca.address) == (
        ("pci0000:00", "0000:00:05.0"),
        False,
        PciAddress("0000:16:00.1"),
    )


@pytest.mark.parametrize("source", list(TopologySource))
def test_a_broken_file_is_told_and_breaks_nothing(tmp_path: Path, source: TopologySource) -> None:
    """The machine is as sysfs shows it, and says why the file tells nothing, unless nobody asks the file."""
    machine = _machine(tmp_path, TWO_NUMA + one_device(INFINIBAND).removeprefix(TWO_NUMA), "<system>", source)
    assert [hca.numa_node for hca in machine.hcas] == [0]
    assert (machine.topology_problem is None) == (source is TopologySource.SYSFS)
    assert machine.virtual_topology
