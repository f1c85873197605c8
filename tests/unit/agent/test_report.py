import itertools
from collections.abc import Sequence

import msgspec
import pytest
from tests.unit.agent.situations import (
    GPU_RESOURCE,
    POOL,
    RULES,
    address,
    answer,
    beside,
    binding,
    entry,
    gpus_of,
    held,
    listed,
    placed,
    situation,
)
from tests.unit.builders import hca, machine, port

from railside_agent.holders import Checkpoint, Entry
from railside_agent.mode import ModeDecision
from railside_agent.own_node import NodeFacts
from railside_agent.pod_resources import Allocatable, AllocatableDevice, ContainerHolding, NodeHoldings
from railside_agent.pods import Pod, Pods
from railside_agent.report import Known, report
from railside_agent.seats import Books, Offer
from railside_agent.situation import Listed, Situation
from railside_agent.view import NOT_TRIED, PoolView, RegistrationState, View
from railside_proto.machine import Excluded, Hca, NumaNode, PortState
from railside_proto.names import RESOURCE
from railside_proto.pool import Mode, Pool
from railside_proto.reasons import Code, reason
from railside_proto.record import (
    Count,
    DeviceKind,
    DeviceRecord,
    ExcludedRecord,
    KubeletFacts,
    NumaRecord,
    PoolRecord,
    Record,
    Source,
    TopologyPolicy,
)

_REGISTERED = RegistrationState(registered=True, detail="registered", streams=1)
_SHARED = ModeDecision(mode=Mode.IB_SHARED, source="setting")
_DOWN = (port(PortState.DOWN),)
_TWO = (placed(1), placed(2, 1))
_NUMA = (NumaNode(number=0, cpus="0-3", distances=(10, 21)), NumaNode(number=1, cpus="4-7", distances=(21, 10)))


def _known(now: Situation, books: Books | None = None, /, **facts: object) -> Known:
    """What an agent knows in situation ``now``; other facts are the view's."""
    pool = PoolView(
        pool=POOL, mode=_SHARED, offer=listed(now, books=books), registration=_REGISTERED, bindings=now.bindings
    )
    node = NodeFacts(seen=True, uid="u1")
    pods = Pods(departed=tuple(sorted(now.ended)))
    view = View(version="1", pools=(pool,), machine=now.machine, node=node, pods=pods)
    return Known(
        view=msgspec.structs.replace(view, **facts),
        checkpoint=now.checkpoint or Checkpoint(),
        gpu_resources=RULES.gpu_resources,
        boot_id="b1",
        agent_uid="a1",
    )


def _record(now: Situation, books: Books | None = None, /, **facts: object) -> Record:
    made = report(_known(now, books, **facts))
    assert made is not None
    return made


def _counts(
    now: Situation, books: Books | None = None, /, *, resource: str = RESOURCE, **facts: object
) -> dict[tuple[int, ...], tuple[int, int, int]]:
    """Listed, held and free by NUMA nodes."""
    return {
        one.numa_nodes: (one.listed, one.held, one.free)
        for one in _record(now, books, **facts).counts
        if one.resource == resource
    }


def test_a_whole_record() -> None:
    """A node with one HCA that a pod has and one that is free is told of in full."""
    seen = msgspec.structs.replace(
        machine(*_TWO),
        numa_nodes=_NUMA,
        excluded=(Excluded(name="mlx5_bond_0", reason=reason(Code.ETHERNET_LINK, device="mlx5_bond_0")),),
    )
    now = situation(machine=seen, entries=[entry("p", "n0-s0")], bindings=(binding("p", n0_s0=1),))
    kubelet = KubeletFacts(source=Source.CONFIGZ, topology_policy=TopologyPolicy.BEST_EFFORT)
    made = _record(now, kubelet=kubelet)
    assert msgspec.structs.replace(made, holders=(), pods=()) == Record(
        node_uid="u1",
        boot_id="b1",
        agent_uid="a1",
        version="1",
        kubelet=kubelet,
        pools=(PoolRecord(resource=RESOURCE, mode=Mode.IB_SHARED, share=1, registered=True, hcas=2, free=1),),
        numa_nodes=(
            NumaRecord(number=0, cpus="0-3", distances=(10, 21)),
            NumaRecord(number=1, cpus="4-7", distances=(21, 10)),
        ),
        counts=(
            Count(resource=RESOURCE, numa_nodes=(0,), listed=1, held=1, free=0),
            Count(resource=RESOURCE, numa_nodes=(1,), listed=1, held=0, free=1),
        ),
        devices=(
            _device(_TWO[0], 0, free=0, held=1),
            _device(_TWO[1], 1, free=1, held=0),
        ),
        excluded=(
            ExcludedRecord(
                name="mlx5_bond_0",
                code=Code.ETHERNET_LINK,
                sentence="mlx5_bond_0 speaks Ethernet on every port; only InfiniBand is offered",
            ),
        ),
    )
    assert [(one.pod, one.hcas) for one in made.holders] == [("p", (address(1),))]
    assert [(one.pod, one.held[0].held) for one in made.pods] == [("p", 1)]


def _device(of: Hca, *nodes: int, free: int, held: int) -> DeviceRecord:
    return DeviceRecord(
        address=of.address,
        path=of.path,
        numa_node=of.numa_node,
        kind=DeviceKind.HCA,
        resource=RESOURCE,
        name=of.name,
        kubelet_numa_nodes=nodes,
        free=free,
        held=held,
    )


_NOT_LISTED = PoolView(pool=POOL, mode=_SHARED, offer=Offer(), registration=NOT_TRIED)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"machine": None}, id="machine-not-looked-at"),
        pytest.param({"node": NodeFacts()}, id="node-not-seen"),
        pytest.param({"pools": (_NOT_LISTED,)}, id="disk-not-read"),
        pytest.param({"machine": machine(_TWO[0])}, id="list-of-another-look"),
    ],
)
def test_what_is_not_known_yet_is_not_told(facts: dict[str, object]) -> None:
    """Before node, machine and list are known, and go together, there is no record: an earlier one stays."""
    assert report(_known(situation(*_TWO), **facts)) is None


@pytest.mark.parametrize(
    ("now", "books", "expected"),
    [
        pytest.param(situation(*_TWO), None, {(0,): (1, 0, 1), (1,): (1, 0, 1)}, id="idle"),
        pytest.param(
            situation(*_TWO, entries=[entry("p", "n0-s0")], bindings=(binding("p", n0_s0=1),)),
            None,
            {(0,): (1, 1, 0), (1,): (1, 0, 1)},
            id="one-held",
        ),
        pytest.param(
            situation(*_TWO, entries=[entry("p", "n0-s0")], ended=frozenset({"p"})),
            None,
            {(0,): (1, 0, 1), (1,): (1, 0, 1)},
            id="held-by-a-pod-that-is-over",
        ),
        pytest.param(
            situation(placed(1, ports=_DOWN), placed(2, 1)),
            Books(hinted=True, listed=(Listed(id="n0-s0", numa_nodes=(0,)),)),
            {(0,): (1, 0, 0), (1,): (1, 0, 1)},
            id="tombstones-are-listed",
        ),
        pytest.param(
            situation(
                *_TWO,
                entries=[entry("p", "mlx5_1", ids=(held("mlx5_1", 0),), answer=answer("/dev/infiniband/uverbs1"))],
            ),
            None,
            {(0,): (1, 1, 0), (1,): (1, 0, 1)},
            id="another-plugins",
        ),
        pytest.param(situation(hca(1, None), hca(2, None)), None, {(): (2, 0, 2)}, id="without-hints"),
        pytest.param(
            situation(hca(1, None), hca(2, 1)), None, {(0, 1): (1, 0, 1), (1,): (1, 0, 1)}, id="on-every-node"
        ),
        pytest.param(situation(*_TWO, mode=None), None, {}, id="no-mode"),
        pytest.param(
            situation(*_TWO, in_flight=frozenset({"n0-s0"})),
            None,
            {(0,): (1, 1, 0), (1,): (1, 0, 1)},
            id="being-dealt",
        ),
    ],
)
def test_the_counts_are_those_of_the_list(
    now: Situation, books: Books | None, expected: dict[tuple[int, ...], tuple[int, int, int]]
) -> None:
    """The kubelet counts by the list that it was given: listed by all ids, free by those that can be dealt."""
    assert expected == _counts(now, books)


def test_gpus_are_counted_beside() -> None:
    """GPUs have counts and holders like HCAs, and say whether one is to be had."""
    gpus = [beside(1), beside(2, 1)]
    now = situation(*_TWO, gpus=gpus, entries=[gpus_of("p", "GPU-1")])
    registered = {GPU_RESOURCE: frozenset({"GPU-1", "GPU-2"})}
    checkpoint = msgspec.structs.replace(now.checkpoint or Checkpoint(), registered=registered)
    now = msgspec.structs.replace(now, checkpoint=checkpoint)
    devices = tuple(AllocatableDevice(id=f"GPU-{one}", numa_nodes=(one - 1,)) for one in (1, 2))
    said = NodeHoldings(containers=(), allocatable=Allocatable(devices={GPU_RESOURCE: devices}))
    made = _record(now, holdings=said)
    assert _counts(now, resource=GPU_RESOURCE, holdings=said) == {(0,): (1, 1, 0), (1,): (1, 0, 1)}
    found = [one for one in made.devices if one.kind is DeviceKind.GPU]
    assert [(one.name, one.resource, one.kubelet_numa_nodes, one.free, one.held) for one in found] == [
        ("GPU-1", GPU_RESOURCE, (0,), 0, 1),
        ("GPU-2", GPU_RESOURCE, (1,), 1, 0),
    ]
    assert [(one.pod, one.gpus) for one in made.holders] == [("p", (gpus[0].address,))]


def test_a_gpu_that_nobody_offers_is_told_all_the_same() -> None:
    """Its place counts for others, and it is not to be had."""
    (gpu,) = (one for one in _record(situation(gpus=[beside(1)])).devices)
    assert (gpu.kind, gpu.resource, gpu.free, gpu.held, gpu.path) == (DeviceKind.GPU, "", 0, 0, beside(1).path)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        pytest.param(situation(placed(1, ports=_DOWN)), (0, 0, Code.NO_ACTIVE_PORT), id="ill"),
        pytest.param(
            situation(placed(1), entries=[entry("p", "x", ids=(held("x", 0),))]),
            (0, 0, Code.SEAT_FOREIGN),
            id="withheld",
        ),
        pytest.param(situation(placed(1)), (1, 0, None), id="well"),
    ],
)
def test_why_an_hca_is_not_to_be_had(now: Situation, expected: tuple[int, int, Code | None]) -> None:
    """One that must not come into new hands has a reason."""
    (device,) = _record(now).devices
    assert expected == (device.free, device.held, device.reason)


def test_where_the_kubelet_believes_an_hca_to_be() -> None:
    """An HCA that no NUMA node claims fits everywhere in a list with hints, and nowhere is a place without."""
    (anywhere, there) = _record(situation(hca(1, None), hca(2, 1))).devices
    (bare,) = _record(situation(hca(1, None))).devices
    assert (anywhere.kubelet_numa_nodes, there.kubelet_numa_nodes, bare.kubelet_numa_nodes) == ((0, 1), (1,), ())


@pytest.mark.parametrize(
    ("can_give", "exclusive", "expected"),
    [
        pytest.param((), (), [(None, 0), (None, 0)], id="not-static"),
        pytest.param((2, 3, 4, 5, 6, 7), (), [(2, 0), (4, 0)], id="static"),
        pytest.param((2, 3, 4, 5, 6, 7), (3, 4, 5), [(2, 1), (4, 2)], id="some-are-taken"),
    ],
)
def test_cpus_by_numa_node(
    can_give: tuple[int, ...], exclusive: tuple[int, ...], expected: list[tuple[int | None, int]]
) -> None:
    """What a static CPU manager may give, and has given, is counted on each NUMA node."""
    holding = ContainerHolding(namespace="default", pod="p", container="main", cpus=exclusive)
    said = NodeHoldings(containers=(holding,), allocatable=Allocatable(cpus=can_give))
    made = _record(situation(), holdings=said)
    assert [(one.allocatable_cpus, one.exclusive_cpus) for one in made.numa_nodes] == expected


def test_pools_are_sorted_and_apart() -> None:
    """Each pool is told of under its own resource, whatever the order of the settings."""
    known = _known(situation(*_TWO))
    (pool,) = known.view.pools
    roce = msgspec.structs.replace(pool, pool=Pool(resource="example.com/roce"), registration=NOT_TRIED)
    both = [msgspec.structs.replace(known.view, pools=pools) for pools in ((pool, roce), (roce, pool))]
    made = [report(msgspec.structs.replace(known, view=view)) for view in both]
    assert made[0] is not None
    assert [(one.resource, one.registered) for one in made[0].pools] == [
        ("example.com/roce", False),
        (RESOURCE, True),
    ]


_ENTRIES = (entry("p", "n0-s0"), entry("q", "n1-s0"), gpus_of("p", "GPU-1"))


@pytest.mark.parametrize("order", list(itertools.permutations(_ENTRIES)), ids=str)
def test_equal_knowledge_gives_equal_records(order: Sequence[Entry]) -> None:
    """The order in which the kubelet has written its checkpoint changes nothing, so nothing is written anew."""
    bindings = (binding("p", n0_s0=1), binding("q", n1_s0=2))
    made = [
        _record(situation(*_TWO, gpus=[beside(1)], entries=entries, bindings=bound, now=now))
        for entries, bound, now in ((_ENTRIES, bindings, 0.0), (order, bindings[::-1], 99.0))
    ]
    assert made[0] == made[1]


def test_a_pod_that_is_over_holds_nothing() -> None:
    """Its entry stays in the kubelet's checkpoint until the next allocation, and is passed over."""
    pods = Pods(
        by_uid={"p": Pod(uid="p", name="p", namespace="default", ended=True, terminating=False)},
    )
    now = situation(*_TWO, entries=[entry("p", "n0-s0"), gpus_of("p", "GPU-1")], ended=frozenset({"p"}))
    assert _record(now, pods=pods).holders == ()
