from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from tests.unit.agent.situations import GPU_RESOURCE, RULES, address, beside, binding, entry, gpus_of, held
from tests.unit.builders import machine

from railside_agent.dealt_gpus import gpu_ids
from railside_agent.holder_records import Hands
from railside_agent.holders import Checkpoint, Entry
from railside_agent.pod_resources import ClaimedDevice, ContainerHolding, NodeHoldings
from railside_agent.pods import Pod, Pods
from railside_agent.seat_names import node_of, zone_of
from railside_proto.machine import PathClass
from railside_proto.names import RESOURCE
from railside_proto.pool import Binding, Pair
from railside_proto.record import Count, HolderRecord, PairRecord, PodHolding

_GPUS = (beside(1), msgspec.structs.replace(beside(2, 1), index=7))
_MACHINE = machine(gpus=_GPUS)
_SEATS = ("n0-s0", "n0-s1", "n1-s0")
_NEAR = Pair(gpu=_GPUS[0].address, hca=address(1), path=PathClass.PIX)


def _pods(*pods: Pod) -> Pods:
    by_uid = {uid: pod for pod in pods for uid in (pod.uid, pod.static_uid) if uid}
    return Pods(pods=pods, by_uid=by_uid)


def _pod(uid: str, **facts: object) -> Pod:
    plain = Pod(uid=uid, name=f"name-of-{uid}", namespace="default", ended=False, terminating=False)
    return msgspec.structs.replace(plain, **facts)


def _records(*entries: Entry, **facts: Any) -> tuple[HolderRecord, ...]:  # noqa: ANN401 -- as for the hands
    return tuple(_hands(*entries, **facts).records())


def _hands(
    *entries: Entry,
    bindings: Iterable[Binding] = (),
    pods: Pods | None = None,
    said: NodeHoldings | None = None,
) -> Hands:
    ids = gpu_ids(_MACHINE, Checkpoint(entries=entries), entries, None, RULES.gpu_resources)
    places = {(RESOURCE, seat): node_of(zone_of(seat)) for seat in _SEATS}
    hands = Hands(places | {(one.resource, one.id): one.numa_nodes for one in ids}, ids, pods or Pods())
    hands.dealt(entries)
    hands.bound(RESOURCE, bindings)
    hands.claimed(said, _MACHINE)
    return hands


def _held(resource: str, count: int, *numa_nodes: int) -> Count:
    return Count(resource=resource, numa_nodes=numa_nodes, listed=count, held=count, free=0)


def test_what_a_container_holds() -> None:
    """A container has its ids by resource and NUMA node, its GPUs and HCAs by address, and which serves which."""
    bound = msgspec.structs.replace(binding("p", n0_s0=1, n0_s1=2), pairs=(_NEAR,))
    gpus = gpus_of("p", "GPU-1")
    placed = msgspec.structs.replace(gpus, ids=(held("GPU-1", 0),))
    (record,) = _records(entry("p", "n0-s0", "n0-s1"), placed, bindings=[bound])
    assert record == HolderRecord(
        pod="p",
        container="main",
        held=(_held(GPU_RESOURCE, 1, 0), _held(RESOURCE, 2, 0)),
        hcas=(address(1), address(2)),
        gpus=(_GPUS[0].address,),
        pairs=(PairRecord(gpu=_GPUS[0].address, hca=address(1), path="PIX"),),
    )


def test_what_a_pod_gives_back() -> None:
    """Init and main containers share ids, which come back once when the pod ends."""
    init, main = (entry("p", "n0-s0", "n0-s1", container=name) for name in ("init", "main"))
    other = entry("q", "n1-s0")
    assert tuple(_hands(init, main, gpus_of("p", "GPU-1"), other).pods()) == (
        PodHolding(pod="p", held=(_held(GPU_RESOURCE, 1), _held(RESOURCE, 2, 0))),
        PodHolding(pod="q", held=(_held(RESOURCE, 1, 1),)),
    )


def test_what_was_forgotten_gives_no_ids_back() -> None:
    """A container that runs on behind a lost checkpoint holds HCAs, and nothing that the kubelet counts."""
    assert tuple(_hands(bindings=[binding("p", n0_s0=2)]).pods()) == ()


def test_who_has_not_started_means_no_hca() -> None:
    """Before its first start a container holds seats, and nobody knows yet which HCAs they will be."""
    (record,) = _records(entry("p", "n1-s0"))
    assert (record.held, record.hcas) == ((_held(RESOURCE, 1, 1),), ())


def test_what_is_not_counted_is_left_out() -> None:
    """Ids of other resources, and ids that are in no list, are nobody's here."""
    other = gpus_of("p", "x", resource="example.com/fpga")
    assert _records(other, entry("q", "n9-s9")) == ()


def test_containers_of_several_pods_are_sorted() -> None:
    """Each container has one record, whatever the order in which the kubelet wrote them."""
    entries = [entry("q", "n1-s0"), entry("p", "n0-s1", container="b"), entry("p", "n0-s0", container="a")]
    records = _records(*entries)
    assert [(one.pod, one.container) for one in records] == [("p", "a"), ("p", "b"), ("q", "main")]
    assert records == _records(*reversed(entries))


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        pytest.param(binding("p", n0_s0=1), {("p", "init"): 1, ("p", "main"): 1}, id="both-containers-of-the-pod"),
        pytest.param(binding(None, n0_s0=1), {("p", "init"): 1, ("p", "main"): 1}, id="pod-not-known"),
        pytest.param(
            binding("q", n0_s0=1),
            {("p", "init"): 0, ("p", "main"): 0, ("q", ""): 1},
            id="another-pod-that-runs-on",
        ),
        pytest.param(
            binding("p", n1_s0=1), {("p", ""): 1, ("p", "init"): 0, ("p", "main"): 0}, id="other-seats-of-the-pod"
        ),
        pytest.param(
            binding(None, n1_s0=1), {("", ""): 1, ("p", "init"): 0, ("p", "main"): 0}, id="nobody-knows-whose"
        ),
    ],
)
def test_whose_hcas_a_binding_names(bound: Binding, expected: dict[tuple[str, str], int]) -> None:
    """Of the containers with just its seats; where the kubelet names none, the HCAs are held all the same."""
    entries = [entry("p", "n0-s0", container=name) for name in ("init", "main")]
    records = _records(*entries, bindings=[bound])
    assert {(one.pod, one.container): len(one.hcas) for one in records} == expected


def test_bindings_of_one_pod_that_was_forgotten_are_one_record() -> None:
    """Two containers without a name would be one key twice, which the API server refuses."""
    (record,) = _records(bindings=[binding("p", n0_s0=2), binding("p", n1_s0=1)])
    assert (record.container, record.hcas) == ("", (address(1), address(2)))


def test_a_static_pod_is_called_as_the_api_server_calls_it() -> None:
    """The kubelet's checkpoint has another UID for it, by which no reader would know it."""
    pods = _pods(_pod("mirror", static_uid="static"))
    (record,) = _records(entry("static", "n0-s0"), bindings=[binding("static", n0_s0=1)], pods=pods)
    assert (record.pod, record.hcas) == ("mirror", (address(1),))


def _claim(pod: str) -> NodeHoldings:
    """What the kubelet says of a container with a resource claim for the GPU whose minor number is 7."""
    claim = ClaimedDevice(claim="c", namespace="default", driver="gpu.nvidia.com", pool="n1", device="gpu-7")
    holding = ContainerHolding(namespace="default", pod=pod, container="main", claimed=(claim,))
    return NodeHoldings(containers=(holding,), allocatable=None)


def test_resource_claims_count() -> None:
    """A GPU that a container has by a claim is in its hands like any other."""
    (record,) = _records(pods=_pods(_pod("p")), said=_claim("name-of-p"))
    assert (record.pod, record.held, record.gpus) == ("p", (), (_GPUS[1].address,))


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param(_pods(), id="not-known"),
        pytest.param(_pods(_pod("p", ended=True)), id="over"),
        pytest.param(_pods(_pod("other")), id="another"),
    ],
)
def test_claims_of_pods_that_are_over_or_not_known_are_left_out(pods: Pods) -> None:
    """The kubelet's account is minutes old at times, and names no UID: who is not there holds nothing."""
    assert _records(pods=pods, said=_claim("name-of-p")) == ()
