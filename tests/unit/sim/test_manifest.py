"""The manifest's grammar: what a page of text means, and the sentences for what it must not say."""

from pathlib import Path

import pytest

from railside_proto.machine import LinkLayer, PortState
from railside_sim.lines import ManifestError
from railside_sim.manifest import parse_manifest, read_manifest

MACHINES = Path(__file__).parents[2] / "machines"
HCA = "hca pci0000:15/0000:15:01.0/0000:16:00.0 numa=0 name=mlx5_0 guid=5c25:7303:00a1:4c10"


def test_a_page_of_text_is_a_machine() -> None:
    """Lines in any order, with comments and quotes, make one machine whose ports belong to their HCA."""
    machine = parse_manifest(
        f"""
        port mlx5_0 1 link=InfiniBand state=INIT lid=0x1a   # no subnet manager
        {HCA} uverbs=4
        numa 0 cpus=0-7 distances=10
        gpu pci0000:15/0000:15:02.0/0000:17:00.0 numa=-1 model="NVIDIA H800" uuid=GPU-1 minor=3
        rdma_cm 10:58
        """,
    )
    (hca,), (gpu,) = machine.hcas, machine.gpus
    assert (hca.name, hca.uverbs, hca.sys_image_guid) == ("mlx5_0", 4, "5c25:7303:00a1:4c10")
    assert (hca.ports[0].link, hca.ports[0].state, hca.ports[0].lid) == (LinkLayer.INFINIBAND, PortState.INIT, 26)
    assert (gpu.model, gpu.function.numa, gpu.function.address) == ("NVIDIA H800", -1, "0000:17:00.0")
    assert machine.rdma_cm == (10, 58)


def test_left_out_facts_are_those_of_a_healthy_machine() -> None:
    """An HCA without further facts is a ConnectX-7 bound to its driver, and one without uverbs has none."""
    (hca,) = parse_manifest(HCA).hcas
    assert hca.function is not None
    assert (hca.function.vendor, hca.function.pci_class, hca.function.driver) == (
        "0x15b3",
        "0x020700",
        "mlx5_core",
    )
    assert hca.uverbs is None


def test_software_devices_have_no_function() -> None:
    """A device at virtual hangs below no PCI function and needs no NUMA node."""
    assert parse_manifest("hca virtual name=rxe0 uverbs=1 guid=5c25:7303:00a1:4c10").hcas[0].function is None


def test_raw_lines_take_what_stands_there() -> None:
    r"""A file's content may hold = signs and \n, which becomes a line end."""
    machine = parse_manifest(r'file sys/x "a=b\nc"')
    assert machine.files == (("sys/x", "a=b\nc"),)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "gpux 1",
            "the first word is 'gpux'; allowed are numa, gpu, hca, port, pci, rdma_cm, netns, topology, file",
        ),
        ("numa 0", "cpus= is missing; allowed is: numa NUMBER cpus=... [distances=...] [memory_kb=...]"),
        ("numa 0 1 cpus=0", "2 words without = where 1 belong; allowed is: numa NUMBER"),
        ("numa 0 cpus=0 colour=red", "colour= is not known here; allowed is: numa NUMBER"),
        ("numa 0 cpus=0 cpus=1", "cpus= is given twice; allowed is: numa NUMBER"),
        ("numa 0 cpus=0..7", "cpus is '0..7'; allowed is a form such as 0-55,112-167"),
        ("numa zero cpus=0", "the NUMA node is 'zero'; allowed is a number such as 7, -1 or 0x1a"),
        ("gpu 0000:16:00.0 numa=0", "the path is '0000:16:00.0'; allowed is a form such as pci0000:15/"),
        (f"{HCA} vendor=15b3", "vendor is '15b3'; allowed is a form such as 0x15b3"),
        (HCA.replace(" numa=0", ""), "numa= is missing; allowed is a NUMA node's number, or -1 for none"),
        (HCA.replace("4c10", "4C10"), "guid is '5c25:7303:00a1:4C10'; allowed is a form such as"),
        (f"{HCA}\n{HCA}", "a second hca is named mlx5_0; allowed is one of each"),
        (
            f"{HCA}\n{HCA.replace('mlx5_0', 'mlx5_1')}",
            "a second function is at 0000:16:00.0; allowed is one of each",
        ),
        (f"{HCA} uverbs=0\nhca virtual name=rxe0 uverbs=0 guid=0:0", "a second hca has uverbs 0; allowed is"),
        ("port mlx5_9 1 link=InfiniBand state=ACTIVE", "the hca of the port is 'mlx5_9'; allowed are "),
        (
            f"{HCA}\nport mlx5_0 1 link=IB state=ACTIVE",
            "link is 'IB'; allowed are InfiniBand, Ethernet, Unspecified",
        ),
        (
            f"{HCA}\nport mlx5_0 1 link=Ethernet state=UP",
            "state is 'UP'; allowed are NOP, DOWN, INIT, ARMED, ACTIVE",
        ),
        ("netns none", "the mode is 'none'; allowed are shared, exclusive"),
        (f"{HCA} told=x", "told is 'x'; allowed is a form such as 0/ffff:ff:01.0"),
        ("rdma_cm 10", "rdma_cm is '10'; allowed is a form such as 10:58"),
        ("without /sys", "the path is '/sys'; allowed is a path below the root, without a leading /"),
        ('file sys/x "a', "No closing quotation; allowed are words and paired quotes"),
    ],
)
def test_a_bad_line_is_one_sentence(line: str, sentence: str) -> None:
    """The error of a bad line names the file, the line's number, what is wrong and what is allowed."""
    number = len(line.splitlines())
    with pytest.raises(ManifestError) as raised:
        parse_manifest(line, origin="odd.machine")
    assert str(raised.value).startswith(f"odd.machine:{number}: {sentence}")


def test_the_documents_machine_reads() -> None:
    """The manifest of ecs.hpcpni3.45xlarge has 8 GPUs, 8 InfiniBand HCAs and one Ethernet bond on 2 NUMA nodes."""
    machine = read_manifest(MACHINES / "ecs.hpcpni3.45xlarge.machine")
    layers = [port.link for hca in machine.hcas for port in hca.ports]
    assert (len(machine.numa), len(machine.gpus)) == (2, 8)
    assert layers.count(LinkLayer.INFINIBAND) == 8
    assert [hca.name for hca in machine.hcas if hca.ports[0].link is LinkLayer.ETHERNET] == ["mlx5_bond_0"]
