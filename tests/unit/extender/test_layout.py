"""How near GPUs and HCAs come to each other, whichever GPUs are dealt."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.extender.nodes import record

from railside_extender.layout import Layout, Place, gpu_choices, layout, worst_paths
from railside_proto.machine import Function, PathClass, PciAddress
from railside_proto.names import RESOURCE
from railside_proto.pairing import Candidate, choose
from railside_proto.record import DeviceKind, DeviceRecord

PIX, PXB, PHB, NODE, SYS = PathClass


def place(spelt: str) -> Place:
    """``0:r1/s1/p1``: NUMA node 0, a root port, a switch, a port of it."""
    node, _, path = spelt.partition(":")
    bridges = tuple(f"0000:00:{part}.0" for part in path.split("/"))
    return Place(1 << int(node), int(node), (f"pci{node}", *bridges))


def lay(gpus: str, hcas: str) -> Layout:
    return Layout(tuple(map(place, gpus.split())), tuple(map(place, hcas.split())))


PAIRS = lay("0:a/s1/1 0:b/s2/1 0:c/s3/1 0:d/s4/1", "0:a/s1/2 0:b/s2/2 0:c/s3/2 0:d/s4/2")
SHARED = lay("0:a/s1/1 0:a/s1/3 0:b/s2/1 0:b/s2/3", "0:a/s1/2 0:b/s2/2")


def test_each_gpu_has_its_hca() -> None:
    """Where each GPU has an HCA on its switch, every choice ends in pairs at PIX, and one is enough to look at."""
    assert worst_paths(PAIRS, 3, 3) == (PIX, PIX, PIX)
    assert len(list(gpu_choices(PAIRS, 2))) == 1


def test_gpus_of_one_switch_share_its_hca() -> None:
    """Two GPUs may be dealt from one switch, whose HCA serves one of them."""
    assert worst_paths(SHARED, 2, 2) == (PIX, PHB)
    assert worst_paths(SHARED, 1, 1) == (PIX,)


def test_an_hca_that_is_gone_leaves_its_gpu_to_the_next() -> None:
    """With one HCA taken, the choice may fall on just its GPU."""
    left = Layout(PAIRS.gpus, PAIRS.hcas[1:])
    assert worst_paths(left, 1, 1) == (PHB,)
    assert worst_paths(left, 4, 3) == (PIX, PIX, PIX)


def test_what_does_not_fit_has_no_paths() -> None:
    """Too few GPUs or HCAs."""
    assert worst_paths(PAIRS, 5, 1) is None
    assert worst_paths(PAIRS, 1, 5) is None


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    spots = st.tuples(st.integers(0, 1), st.sampled_from("ab"), st.sampled_from("st"), st.integers(1, 3))
    spelt = st.lists(spots.map(lambda one: f"{one[0]}:{one[1]}/{one[2]}/{one[3]}"), min_size=1, max_size=6)
    return lay(" ".join(draw(spelt)), " ".join(draw(spelt)))


@given(layouts(), st.integers(1, 4), st.integers(1, 4))
def test_the_worst_is_the_worst_of_all_choices(free: Layout, gpus: int, hcas: int) -> None:
    """No choice of GPUs ends worse than what is told, and one ends so: by trying all of them."""
    if len(free.gpus) < gpus or len(free.hcas) < hcas:
        return
    candidates = [Candidate(hca=_function(one, f"h{number}"), zone="") for number, one in enumerate(free.hcas)]
    every = (
        choose([_function(one, f"g{number}") for number, one in enumerate(choice)], candidates, {"": hcas})
        for choice in itertools.combinations(free.gpus, gpus)
    )
    worst = max((one.classes for one in every if one is not None), key=lambda paths: paths[::-1])
    assert worst_paths(free, gpus, hcas) == worst


def _function(one: Place, name: str) -> Function:
    return Function(address=PciAddress(name), path=one.path, numa_node=one.numa_node)


def test_only_free_devices_are_laid_out() -> None:
    """What is held, ill, or of another resource is nobody's choice."""
    devices = tuple(
        DeviceRecord(
            address=PciAddress(f"0000:0{number}:00.0"),
            path=("pci0",),
            numa_node=0,
            kind=kind,
            resource=resource,
            kubelet_numa_nodes=(0,),
            free=free,
            held=1 - free,
        )
        for number, (kind, resource, free) in enumerate(
            [
                (DeviceKind.HCA, RESOURCE, 1),
                (DeviceKind.HCA, RESOURCE, 0),
                (DeviceKind.HCA, "example.com/other", 1),
                (DeviceKind.GPU, "nvidia.com/gpu", 1),
                (DeviceKind.GPU, "nvidia.com/gpu", 0),
            ]
        )
    )
    found = layout(record(devices=devices), RESOURCE)
    assert (len(found.gpus), len(found.hcas)) == (1, 1)
