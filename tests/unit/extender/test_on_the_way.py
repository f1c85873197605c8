"""Which pods count as being on their way, and for how long."""

import msgspec
import pytest
from tests.unit.extender.nodes import cluster, pod, record
from tests.unit.extender.test_decider import codes, decider

from railside_extender.on_the_way import coming, is_coming
from railside_extender.pod_facts import PodFacts, PodObject, pod_facts
from railside_proto.names import CPU_RESOURCE, GPU_RESOURCE, RESOURCE
from railside_proto.record import NumaRecord, Record

HELD = {GPU_RESOURCE: (2, 2), RESOURCE: (2, 2)}


def test_what_is_held_on_several_numa_nodes_adds_up() -> None:
    """A pod that is shown whole, two and two of each, is on its way no more."""
    assert not is_coming(pod("p", gpus=4, hcas=4), record(holders={"uid-p": HELD}))
    assert is_coming(pod("p", gpus=5, hcas=4), record(holders={"uid-p": HELD}))


def test_what_records_do_not_count_is_not_waited_for() -> None:
    """A network card of another plugin never stands in a record; the pod that has one has arrived all the same."""
    asked = pod("p", gpus=4, hcas=4, limits={"example.com/eni-ip": "1"})
    assert not is_coming(asked, record(holders={"uid-p": HELD}))


def guaranteed(name: str, cpus: int, node: str, **devices: int) -> PodFacts:
    limits = {"cpu": str(cpus), "memory": "1Gi", **{key: str(count) for key, count in devices.items()}}
    found = {
        "metadata": {"uid": f"uid-{name}", "name": name, "namespace": "default"},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}],
        },
    }
    return pod_facts(msgspec.convert(found, PodObject))


def with_cpus(found: Record, *, taken: int) -> Record:
    """Eight CPUs on each NUMA node, of which so many of node 0 are told to be taken."""
    nodes = tuple(
        NumaRecord(number=number, cpus=f"{8 * number}-{8 * number + 7}", allocatable_cpus=8, exclusive_cpus=cpus)
        for number, cpus in enumerate((taken, 0))
    )
    kubelet = msgspec.structs.replace(found.kubelet, cpu_policy="static")
    return msgspec.structs.replace(found, numa_nodes=nodes, kubelet=kubelet)


@pytest.mark.parametrize(("taken", "expected"), [(0, [6]), (5, [6]), (6, [])])
def test_cpus_count_until_as_many_are_told_to_be_taken(taken: int, expected: list[int]) -> None:
    """A record shows exclusive CPUs late: a pod has not arrived for as long as some are missing."""
    found = coming([guaranteed("p", 6, "a")], with_cpus(record(), taken=taken), frozenset({CPU_RESOURCE}))
    assert [ask.cpus for ask in found] == expected


def test_a_pod_waits_where_cpus_on_their_way_may_be_missing() -> None:
    """Eight CPUs on the node with the devices, six of them dealt a moment ago: no place for six more."""
    found = with_cpus(record(hcas=(4, 0), gpus=(4, 0)), taken=0)
    known = cluster(found)
    known.see_pod("uid-p", guaranteed("p", 6, "a"), 0.0)
    asked = guaranteed("q", 6, "", **{RESOURCE: 1, GPU_RESOURCE: 1})
    assert codes(decider(known).filter(asked, ["a"], 0.0).answer.failed) == {"a": "PodsOnTheirWay"}


def test_a_node_with_a_static_cpu_manager_answers_for_pods_of_several_steps() -> None:
    """What pods give back is told of devices alone; CPUs are nobody's there, and no reason to fail."""
    found = with_cpus(record(holders={"uid-p": HELD}, gpus=(2, 2), hcas=(2, 2)), taken=0)
    spec = {
        "initContainers": [{"name": "before", "resources": {"limits": {RESOURCE: "1"}}}],
        "containers": [{"name": "main", "resources": {"limits": {RESOURCE: "2", GPU_RESOURCE: "2"}}}],
    }
    asked = {"metadata": {"uid": "uid-q", "name": "q", "namespace": "default"}, "spec": spec}
    facts = pod_facts(msgspec.convert(asked, PodObject))
    assert decider(cluster(found)).filter(facts, ["a"], 0.0).answer.names == ["a"]


def test_a_node_is_as_good_for_a_pod_after_it_was_offered_as_before() -> None:
    """The pod's own hold lowers no score: the tightest node stays the best (G8)."""
    known = cluster(record(hcas=(1, 0), gpus=(1, 0)), record("b"))
    one, asked = decider(known), pod(gpus=1, hcas=1)
    before = one.prioritize(asked, ["a", "b"], 0.0)
    one.filter(asked, ["a", "b"], 0.0)
    assert one.prioritize(asked, ["a", "b"], 0.0) == before
    assert before[0][1] > before[1][1]
