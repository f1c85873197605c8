from typing import Any

import msgspec
import pytest
from tests.unit.agent.situations import POOL, address, answer, binding, entry, held, rules, situation, used
from tests.unit.builders import hca, port

from railside_agent.holders import Entry
from railside_agent.soundness import Course
from railside_agent.usage import Usage, live_bindings
from railside_proto.machine import Hca, LinkLayer, PortState
from railside_proto.pool import Binding, Mode, Pool, Selector
from railside_proto.reasons import Code

_HCAS = (hca(1), hca(2), hca(3, 1))
_DOWN = (port(PortState.DOWN),)
_THREE = Pool(shares_per_hca=3)


def _counts(one: Usage) -> dict[str, tuple[int, int]]:
    """Users and free shares by the HCA's name."""
    return {each.hca.name: (each.users, each.free) for each in one.hcas}


def _withheld(one: Usage) -> list[str]:
    return [each.hca.name for each in one.hcas if each.withheld]


@pytest.mark.parametrize(
    ("mode", "free"),
    [
        pytest.param(Mode.IB_SHARED, (2, 1), id="one-container-an-hca"),
        pytest.param(Mode.IB_SHARED_MULTI, (6, 3), id="several"),
        pytest.param(None, (0, 0), id="nobody-chose"),
    ],
)
def test_free_shares_by_mode(mode: Mode | None, free: tuple[int, int]) -> None:
    """A zone has the shares of its HCAs, and none where no mode is chosen (law 7)."""
    now = used(situation(*_HCAS, mode=mode), pool=_THREE)
    assert free == (now.free("n0"), now.free("n1"))


@pytest.mark.parametrize(
    ("mode", "free"),
    [
        pytest.param(Mode.IB_SHARED, 0, id="more-than-one-share-used"),
        pytest.param(Mode.IB_SHARED_MULTI, 1, id="one-left"),
        pytest.param(None, 0, id="no-mode"),
    ],
)
def test_shares_in_use_are_not_free(mode: Mode | None, free: int) -> None:
    """A mode switch never makes free shares of used ones, nor fewer than none (law 7)."""
    entries = (entry("p", "n0-s0"), entry("q", "n0-s1"))
    bindings = (binding("p", n0_s0=1), binding("q", n0_s1=1))
    now = used(situation(hca(1), entries=entries, bindings=bindings, mode=mode), pool=_THREE)
    assert ({"mlx5_1": (2, free)}, free) == (_counts(now), now.free("n0"))


def test_a_sick_hca_has_no_free_share() -> None:
    """An HCA that is ill is not counted, and its reason is told (law 8, B-DP-37)."""
    now = used(situation(hca(1), hca(2, ports=_DOWN)))
    ill = now.hcas[1].unsound
    assert ill is not None
    assert (now.free("n0"), ill.code) == (1, Code.NO_ACTIVE_PORT)


def test_a_recovering_hca_has_no_free_share() -> None:
    """An HCA comes back into the count after its window, and its falls are told (B-DP-38)."""
    courses = {address(1): Course(well_since=95.0, flaps=3)}
    young = used(situation(hca(1), now=100.0), courses=courses)
    old = used(situation(hca(1), now=105.0), courses=courses)
    assert (young.free("n0"), old.free("n0"), old.hcas[0].flaps) == (0, 1, 3)


def _theirs(name: str, node: int | None, *paths: str) -> Entry:
    nodes = () if node is None else (node,)
    return entry("foreign", ids=(held(name, *nodes),), answer=answer(*paths))


@pytest.mark.parametrize(
    ("entries", "withheld"),
    [
        pytest.param([_theirs("a", 0, "/dev/infiniband/uverbs2")], ["mlx5_2"], id="known"),
        pytest.param([_theirs("a", 1)], ["mlx5_3"], id="unknown-of-a-zone"),
        pytest.param([_theirs("a", 0)], ["mlx5_2"], id="unknown-and-one-is-ours"),
        pytest.param([_theirs("a", 0), _theirs("b", 0)], ["mlx5_1", "mlx5_2"], id="as-many-as-there-are"),
        pytest.param(
            [_theirs("a", 1), _theirs("b", 1), _theirs("c", 1)], ["mlx5_3"], id="more-than-there-are-in-the-zone"
        ),
        pytest.param(
            [_theirs("a", 0, "/dev/infiniband/uverbs2"), _theirs("b", 1)], ["mlx5_2", "mlx5_3"], id="both-kinds"
        ),
        pytest.param([_theirs("a", 5)], [], id="zone-without-hcas"),
    ],
)
def test_what_another_plugins_pods_have_is_withheld(entries: list[Entry], withheld: list[str]) -> None:
    """As many HCAs as they have are nobody else's, and never one that our own pod has (law 2)."""
    now = used(
        situation(*_HCAS, entries=[entry("p", "n0-s0"), *entries], bindings=(binding("p", n0_s0=1),)),
        pool=_THREE,
    )
    free = {each.hca.name: each.free for each in now.hcas if each.withheld}
    assert (withheld, dict.fromkeys(withheld, 0)) == (_withheld(now), free)


def test_an_unknown_hca_is_first_of_the_recorded_zone() -> None:
    """An HCA of the zone that the kubelet recorded is withheld before one that no NUMA node claims (law 2)."""
    now = used(situation(hca(1, None), hca(2, 1), entries=[_theirs("a", 1)]))
    assert _withheld(now) == ["mlx5_2"]


def test_an_id_of_theirs_that_is_bare_withholds_one_of_any_zone() -> None:
    """Where the list has no hints, one HCA of all is withheld."""
    now = used(situation(*_HCAS, entries=[_theirs("a", None)]))
    assert (now.hinted, len(_withheld(now)), now.free("any")) == (False, 1, 2)


@pytest.mark.parametrize(
    ("entries", "bindings", "free"),
    [
        pytest.param([entry("p", "n0-s0")], (), (1, 1), id="waits"),
        pytest.param([entry("p", "n0-s0")], (binding("p", n0_s0=1),), (1, 1), id="has-started"),
        pytest.param([entry("p", "n0-s0", "n0-s1")], (), (0, 1), id="two-wait"),
        pytest.param([entry("p", "n0-s0"), entry("p", "n0-s0", container="init")], (), (1, 1), id="init-and-main"),
        pytest.param([entry("p", "n1-s0"), entry("q", "n1-s1")], (), (2, 0), id="more-than-free"),
    ],
)
def test_seats_that_wait_for_their_start_are_not_free(
    entries: list[Entry], bindings: tuple[Binding, ...], free: tuple[int, int]
) -> None:
    """A seat that was dealt needs a share of its zone, though no HCA is chosen yet (law 7)."""
    now = used(situation(*_HCAS, entries=entries, bindings=bindings))
    assert free == (now.free("n0"), now.free("n1"))


@pytest.mark.parametrize(
    ("bound", "entries", "facts", "expected"),
    [
        pytest.param(binding("p", n0_s0=1), [entry("p", "n0-s0")], {}, True, id="its-pod-holds-it"),
        pytest.param(binding("p", n0_s0=1), [entry("q", "n0-s0")], {}, False, id="another-pod-holds-it"),
        pytest.param(binding("p", n0_s0=1), [entry("p", "n0-s1")], {}, False, id="its-pod-holds-another"),
        pytest.param(binding("p", n0_s0=1), [], {}, False, id="nobody-holds-it"),
        pytest.param(binding(None, n0_s0=1), [entry("q", "n0-s0")], {}, True, id="not-locked"),
        pytest.param(binding(None, n0_s0=1), [], {}, False, id="not-locked-and-not-held"),
        pytest.param(
            binding(None, n0_s0=1),
            [entry("q", "n0-s0", "n0-s1")],
            {},
            False,
            id="not-locked-and-dealt-with-others",
        ),
        pytest.param(binding("p", n0_s0=1), [], {"alive": frozenset({"p"})}, True, id="the-checkpoint-was-lost"),
        pytest.param(
            binding("p", n0_s0=1),
            [entry("q", "n0-s0")],
            {"alive": frozenset({"p"})},
            True,
            id="lost-and-dealt-again",
        ),
        pytest.param(
            binding("p", n0_s0=1, n0_s1=2), [entry("p", "n0-s1")], {}, True, id="one-of-its-seats-is-held"
        ),
        pytest.param(
            binding("p", n0_s0=1), [entry("p", "n0-s0")], {"ended": frozenset({"p"})}, False, id="its-pod-is-over"
        ),
        pytest.param(
            binding("p", n0_s0=1), [entry("p", "n0-s0")], {"ended": frozenset({"q"})}, True, id="another-is-over"
        ),
        pytest.param(
            binding(None, n0_s0=1), [], {"in_flight": frozenset({"n0-s0", "x"})}, True, id="just-being-dealt"
        ),
        pytest.param(
            binding(None, n0_s0=1, n0_s1=2), [], {"in_flight": frozenset({"n0-s0"})}, False, id="half-in-flight"
        ),
        pytest.param(binding("p", n0_s0=1), [], {"doubtful": True}, True, id="the-checkpoint-is-doubtful"),
        pytest.param(
            binding("p", n0_s0=1), [entry("p", "n0-s0", resource="example.com/x")], {}, False, id="other-resource"
        ),
    ],
)
def test_which_bindings_are_live(
    bound: Binding, entries: list[Entry], facts: dict[str, Any], expected: object
) -> None:
    """A binding counts while the pod that it is locked to holds one of its seats, or where that is in doubt."""
    now = situation(hca(1), hca(2), entries=entries, bindings=(bound,), **facts)
    assert expected == (live_bindings(now, POOL) == (bound,))


def test_a_seat_that_init_and_main_share_uses_its_hca_once() -> None:
    """Two bindings of one seat to one HCA are one user."""
    bindings = (binding("p", n0_s0=1), binding("p", n0_s0=1, n0_s1=2))
    now = used(situation(hca(1), hca(2), entries=[entry("p", "n0-s0", "n0-s1")], bindings=bindings))
    assert _counts(now) == {"mlx5_1": (1, 0), "mlx5_2": (1, 0)}


def test_a_seat_that_is_being_dealt_is_in_hands() -> None:
    """Between Allocate and the kubelet's writing, a seat is held already, and others' ids are not ours."""
    now = used(situation(*_HCAS, in_flight=frozenset({"n0-s0", "mlx5_9"})))
    assert ({"n0-s0"}, 1) == (set(now.held), now.free("n0"))


def test_what_the_checkpoint_records_of_a_seat_in_flight_counts() -> None:
    """The recorded nodes of a seat stand, though it is also in flight."""
    now = used(situation(*_HCAS, entries=[entry("p", "n0-s0")], in_flight=frozenset({"n0-s0"})))
    assert {"n0-s0": held("n0-s0", 0)} == now.held


def test_seats_of_pods_that_are_over_are_not_held() -> None:
    """An ended pod that the checkpoint still names holds nothing, and its HCA is free (law 5)."""
    now = used(
        situation(hca(1), entries=[entry("p", "n0-s0")], bindings=(binding("p", n0_s0=1),), ended=frozenset({"p"}))
    )
    assert (now.held, _counts(now)) == ({}, {"mlx5_1": (0, 1)})


def test_in_doubt_every_binding_is_counted() -> None:
    """While the checkpoint is an old one, no HCA that was bound is given to anybody else."""
    now = used(situation(hca(1), hca(2), bindings=(binding("p", n0_s0=1),), doubtful=True))
    assert _counts(now) == {"mlx5_1": (1, 0), "mlx5_2": (0, 1)}


@pytest.mark.parametrize(
    ("name", "nodes", "advertise", "zone"),
    [
        pytest.param("n1-s0", (1,), "auto", "n1", id="by-its-name"),
        pytest.param("n1-s0", (), "auto", "any", id="list-without-hints"),
        pytest.param("mlx5_7", (1,), "auto", "n1", id="their-id-as-recorded"),
        pytest.param("mlx5_7", (0, 1), "auto", "n0", id="their-id-at-two-nodes-where-most-is-free"),
        pytest.param("any-s0", (0, 1), "auto", "n0", id="of-an-hca-that-had-no-numa-node"),
    ],
)
def test_the_zone_of_a_seat(name: str, nodes: tuple[int, ...], advertise: str, zone: str) -> None:
    """A seat is of the zone that its name says; an id taken over from another plugin, of the one recorded."""
    ours = answer("/run/railside/alloc/x/ib")
    one = entry("p", ids=(held(name, *nodes),), answer=ours)
    now = used(situation(*_HCAS, entries=[one]), by=rules(advertise_topology=advertise))
    assert zone == now.zone(name)


def test_a_seat_nobody_holds_is_of_the_zone_of_its_name() -> None:
    """A free seat is where its name says."""
    assert used(situation(*_HCAS)).zone("n1-s4") == "n1"


_ETHERNET = hca(4, ports=(port(link_layer=LinkLayer.ETHERNET),))


@pytest.mark.parametrize(
    ("link_layer", "expected"), [(LinkLayer.INFINIBAND, ["mlx5_1"]), (LinkLayer.ETHERNET, ["mlx5_4"])]
)
def test_a_pool_counts_its_own_devices(link_layer: LinkLayer, expected: list[str]) -> None:
    """Two pools of one machine share no device."""
    now = used(situation(hca(1), _ETHERNET), pool=Pool(selector=Selector(link_layer=link_layer)))
    assert expected == [one.hca.name for one in now.hcas]


@pytest.mark.parametrize(
    ("hcas", "zones"),
    [
        pytest.param(_HCAS, ("n0", "n1"), id="two-nodes"),
        pytest.param((hca(1), hca(2, None)), ("any", "n0"), id="one-without-a-node"),
        pytest.param((hca(1, None),), ("any",), id="bare"),
        pytest.param((), (), id="none"),
    ],
)
def test_the_zones_of_a_pool(hcas: tuple[Hca, ...], zones: tuple[str, ...]) -> None:
    """Each NUMA node with an HCA is a zone, and all without one are another."""
    assert zones == used(situation(*hcas)).zones


def test_without_hints_all_hcas_are_one_zone() -> None:
    """Where the kubelet reads no hints, a container may have any HCA."""
    now = used(situation(*_HCAS), by=rules(advertise_topology="never"))
    assert (now.zones, now.free("any")) == (("any",), 3)


def test_before_the_first_look_there_is_no_hca() -> None:
    """Without a look nothing is free, and what is held is held."""
    unseen = msgspec.structs.replace(situation(entries=[entry("p", "n0-s0")]), machine=None)
    now = used(unseen)
    assert ((), {"n0-s0"}, 0) == (now.hcas, set(now.held), now.free("n0"))
