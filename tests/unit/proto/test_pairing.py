import itertools
from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.builders import gpu, hca

from railside_proto.machine import Gpu, Hca, Machine, PathClass, path_class
from railside_proto.pairing import Candidate, Choice, _that_can_matter, choose, nearest

_SWITCHES = 3


def _at(number: int, switch: int) -> Hca:
    """An HCA below a switch of the NUMA node ``switch % 2``."""
    return hca(number, switch % 2, path=_path(switch, number))


def _gpu_at(number: int, switch: int) -> Gpu:
    return gpu(100 + number, _path(switch, 100 + number), switch % 2)


def _path(switch: int, number: int) -> tuple[str, ...]:
    bridge = f"pci0000:{switch:02x}"
    return (bridge, f"0000:{switch:02x}:01.0", f"0000:{switch:02x}:02.0", f"0000:{switch:02x}:{number:02x}.0")


_HCAS = st.lists(st.integers(0, _SWITCHES - 1), max_size=5).map(
    lambda switches: [_at(number, switch) for number, switch in enumerate(switches)]
)
_GPUS = st.lists(st.integers(0, _SWITCHES - 1), max_size=4).map(
    lambda switches: [_gpu_at(number, switch) for number, switch in enumerate(switches)]
)


def _oracle(
    gpus: Sequence[Gpu], candidates: Sequence[Candidate], needed: dict[str, int]
) -> list[tuple[PathClass, ...]]:
    """The path classes of every possible choice."""
    subsets = itertools.combinations(candidates, sum(needed.values()))
    fit = [one for one in subsets if _fits(one, candidates, needed)]
    return [
        tuple(sorted(path_class(here, there.hca) for here, there in zip(some, order, strict=True)))
        for subset in fit
        for some in itertools.combinations(gpus, min(len(gpus), len(subset)))
        for order in itertools.permutations(subset, len(some))
    ]


def _fits(chosen: Sequence[Candidate], candidates: Sequence[Candidate], needed: dict[str, int]) -> bool:
    counted = {zone: sum(one.zone == zone for one in chosen) for zone in needed}
    return counted == needed and all(one in chosen for one in candidates if one.must)


@given(hcas=_HCAS, gpus=_GPUS, data=st.data())
def test_no_choice_is_nearer(hcas: list[Hca], gpus: list[Gpu], data: st.DataObject) -> None:
    """Trying every choice of HCAs and every pairing finds none with nearer path classes."""
    musts = data.draw(st.sets(st.sampled_from(hcas or [hca(1)]), max_size=2))
    candidates = [Candidate(hca=one, zone=f"n{one.numa_node}", must=one in musts) for one in hcas]
    needed = {zone: data.draw(st.integers(0, 2)) for zone in ("n0", "n1")}
    wanted = {zone: count for zone, count in needed.items() if count}
    usable = [one for one in candidates if one.zone in wanted]
    every = _oracle(gpus, usable, wanted)
    choice = choose(gpus, candidates, needed)
    assert (min(every) if every else None) == (choice.classes if choice else None)
    if choice is not None:
        _holds_together(choice, needed)


def _holds_together(choice: Choice, needed: dict[str, int]) -> None:
    chosen = [address for hcas in choice.hcas.values() for address in hcas]
    served = [pair.hca for pair in choice.pairs]
    assert {zone: count for zone, count in needed.items() if count} == {
        zone: len(hcas) for zone, hcas in choice.hcas.items()
    }
    assert len(chosen) == len(set(chosen))
    assert len(served) == len(set(served))
    assert set(served) <= set(chosen)


def test_each_gpu_of_the_sold_machine_gets_the_hca_on_its_switch(our_machine: Machine) -> None:
    """Eight GPUs and eight HCAs pair off at PIX, though the kubelet knows of two zones alone."""
    candidates = [Candidate(hca=one, zone=f"n{one.numa_node}") for one in our_machine.hcas]
    choice = choose(our_machine.gpus, candidates, {"n0": 4, "n1": 4})
    assert choice is not None
    assert choice.classes == (PathClass.PIX,) * 8


def test_among_equals_the_least_shared_is_taken() -> None:
    """Without GPUs the HCA that serves fewest containers is chosen, wherever it stands in the list."""
    candidates = [Candidate(hca=hca(number), zone="n0", load=load) for number, load in ((1, 2), (2, 1), (3, 2))]
    assert _chosen(choose([], candidates, {"n0": 1})) == [hca(2).address]


def test_who_needs_no_gpu_leaves_the_places_beside_free_gpus() -> None:
    """Among equally shared HCAs one that no free GPU waits for is chosen."""
    candidates = [Candidate(hca=hca(number), zone="n0", wanted=wanted) for number, wanted in ((1, 1), (2, 0))]
    assert _chosen(choose([], candidates, {"n0": 1})) == [hca(2).address]


def test_sharing_less_counts_for_more_than_leaving_a_place() -> None:
    """An HCA that serves nobody is taken before one that serves somebody, even beside a free GPU."""
    candidates = [
        Candidate(hca=hca(1), zone="n0", load=1),
        Candidate(hca=hca(2), zone="n0", wanted=3),
    ]
    assert _chosen(choose([], candidates, {"n0": 1})) == [hca(2).address]


def test_nearness_counts_for_more_than_sharing() -> None:
    """A GPU gets the HCA on its switch, though another serves fewer containers."""
    near, far = _at(1, 0), _at(2, 2)
    candidates = [Candidate(hca=near, zone="n0", load=9), Candidate(hca=far, zone="n0")]
    assert _chosen(choose([_gpu_at(1, 0)], candidates, {"n0": 1})) == [near.address]


def test_a_zone_with_too_few_hcas_gives_no_choice() -> None:
    """Nothing is chosen where a zone lacks one, rather than less than was asked for."""
    assert choose([], [Candidate(hca=hca(1), zone="n0")], {"n0": 2}) is None


def test_nearest_names_all_that_are_equally_near() -> None:
    """Of three HCAs the two on the GPU's switch are nearest, and none of no HCAs."""
    near = [_at(1, 0), _at(2, 0)]
    assert nearest(_gpu_at(1, 0), [*near, _at(3, 1)]) == tuple(near)
    assert nearest(_gpu_at(1, 0), []) == ()


def _chosen(choice: Choice | None) -> list[str]:
    return [address for hcas in (choice.hcas if choice else {}).values() for address in hcas]


def test_a_choice_is_a_plain_value() -> None:
    """A choice survives being written and read, so that it can be recorded."""
    choice = choose([_gpu_at(1, 0)], [Candidate(hca=_at(1, 0), zone="n0")], {"n0": 1})
    assert msgspec.json.decode(msgspec.json.encode(choice), type=Choice) == choice


def test_hundreds_of_virtual_functions_cost_no_more_than_a_few() -> None:
    """Of many HCAs only those are weighed that a best choice can need: as many as are chosen, for each GPU."""
    many = [Candidate(hca=_at(number, number % _SWITCHES), zone="n0", wanted=number) for number in range(300)]
    gpus = [_gpu_at(number, number) for number in range(2)]
    assert len(_that_can_matter(gpus, many, 2)) <= (len(gpus) + 1) * 2
    choice = choose(gpus, many, {"n0": 2})
    assert choice is not None
    assert choice.classes == (PathClass.PIX, PathClass.PIX)
