from fractions import Fraction

import pytest
from tests.unit.cli.demo_values import the_hardware

from railside_cli.demo.hardware import Hardware, nearest_classes, path
from railside_proto.machine import PathClass

PIX, NODE, SYS = PathClass.PIX, PathClass.NODE, PathClass.SYS


@pytest.fixture(scope="module")
def machine() -> Hardware:
    return the_hardware()


def test_only_infiniband_is_in_the_story(machine: Hardware) -> None:
    """The bond that speaks Ethernet is none of the demo's HCAs, and device nodes are told by their own numbers."""
    assert [one.name for one in machine.hcas] == [f"mlx5_{number}" for number in (0, 3, 4, 5, 6, 7, 8, 9)]
    assert machine.hca("uverbs2").name == "mlx5_3"


def test_columns_are_switches(machine: Hardware) -> None:
    """Each column of a NUMA node has a GPU and the HCA of its switch."""
    columns = [one for zone in machine.zones().values() for one in zone]
    assert [path(one.gpu, one.hca) for one in columns if one.gpu and one.hca] == [PIX] * 8
    assert {zone: len(there) for zone, there in machine.zones().items()} == {0: 4, 1: 4}


def test_a_gpu_without_an_hca_has_a_column_of_its_own(machine: Hardware) -> None:
    """What makes no pair is drawn all the same."""
    fewer = Hardware(hcas=machine.hcas[1:], gpus=machine.gpus)
    lone = [one for one in fewer.zones()[0] if one.hca is None]
    assert [one.gpu.name for one in lone if one.gpu] == ["GPU0"]


@pytest.mark.parametrize(("count", "expected"), [(1, Fraction(1, 4)), (2, Fraction(1, 2)), (4, Fraction(1))])
def test_chance(machine: Hardware, count: int, expected: Fraction) -> None:
    """Of a NUMA node's four HCAs drawn at random, so many are expected on a GPU's own switch."""
    assert machine.chance(machine.gpus[:1], count) == expected
    assert machine.chance(machine.gpus[:2], count) == 2 * expected


def test_the_nearest_way_is_found_among_all(machine: Hardware) -> None:
    """Two GPUs meet their own HCAs in whatever order these come, and else the next best."""
    gpus = machine.gpus[:2]
    assert nearest_classes(gpus, machine.hcas[1::-1]) == (PIX, PIX)
    assert nearest_classes(gpus, machine.hcas[1:4]) == (PIX, NODE)
    assert nearest_classes(gpus, machine.hcas[4:5]) == (SYS,)
    assert nearest_classes(gpus, ()) == ()
