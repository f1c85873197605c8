"""The filter's answers on clusters of one, two and three nodes."""

import msgspec
import pytest
from tests.unit.extender.nodes import BEST_EFFORT, NONE, RESTRICTED, SINGLE, agent, cluster, counts, pod, record

from railside_extender.cluster import Cluster, NodeFacts
from railside_extender.decider import Decider, Filtered, Policy
from railside_extender.pod_facts import PodFacts
from railside_proto.names import CONFLICTING_RESOURCES, GPU_RESOURCE, RESOURCE
from railside_proto.record import Record, TopologyPolicy


def decider(known: Cluster, most_nodes: int = 8) -> Decider:
    conflicting = frozenset(CONFLICTING_RESOURCES)
    return Decider(known, Policy(resource=RESOURCE, conflicting=conflicting, most_nodes=most_nodes))


def ask(known: Cluster, wanted: PodFacts, names: str = "a", now: float = 0.0) -> Filtered:
    return decider(known).filter(wanted, list(names), now)


def texts(entries: bytes) -> dict[str, str]:
    return msgspec.json.decode(b"{%b}" % entries, type=dict[str, str])


def codes(entries: bytes) -> dict[str, str]:
    return {node: text.partition(":")[0] for node, text in texts(entries).items()}


@pytest.mark.parametrize(
    ("policy", "hcas", "gpus", "asked", "code"),
    [
        pytest.param(RESTRICTED, (4, 4), (4, 4), (4, 4), None, id="a whole node"),
        pytest.param(RESTRICTED, (4, 4), (4, 4), (8, 8), None, id="both of one width"),
        pytest.param(RESTRICTED, (2, 2), (4, 4), (4, 4), "NotAlignedNow", id="HCAs on both nodes"),
        pytest.param(RESTRICTED, (4, 0), (0, 4), (1, 1), "NotAlignedNow", id="never on one node together"),
        pytest.param(RESTRICTED, (4, 4), (4, 4), (8, 1), "WidthsDiffer", id="widths differ"),
        pytest.param(SINGLE, (4, 4), (4, 4), (8, 8), "NeverAligned", id="too wide for one node"),
        pytest.param(BEST_EFFORT, (2, 2), (4, 4), (4, 4), None, id="best-effort admits all"),
        pytest.param(NONE, (4, 0), (0, 4), (1, 1), None, id="nobody aligns"),
    ],
)
def test_a_pod_alone(
    policy: TopologyPolicy, hcas: tuple[int, int], gpus: tuple[int, int], asked: tuple[int, int], code: str | None
) -> None:
    """A quiet node is judged as its kubelet will; widths count what is held, too (B-SC-1, B-SC-17)."""
    known = cluster(record(policy=policy, hcas=hcas, gpus=gpus))
    found = ask(known, pod(gpus=asked[0], hcas=asked[1])).answer
    assert {**codes(found.failed), **codes(found.unresolvable)} == ({"a": code} if code else {})
    assert list(found.names) == ([] if code else ["a"])


def test_what_can_never_be_is_not_worth_an_eviction() -> None:
    """Busy now stands in FailedNodes, impossible for good in the other (G4)."""
    known = cluster(record(hcas=(0, 0)), record("b", policy=SINGLE))
    assert codes(ask(known, pod(gpus=4, hcas=4), "ab").answer.failed) == {"a": "NotAlignedNow"}
    assert codes(ask(known, pod("w", gpus=8, hcas=8), "b").answer.unresolvable) == {"b": "NeverAligned"}


def test_texts_name_what_is_asked_and_nothing_of_the_node() -> None:
    """Nodes that fail for the same want have the same text, so that the scheduler counts them together."""
    known = cluster(record(hcas=(0, 3)), record("b", hcas=(1, 1)))
    found = texts(ask(known, pod(gpus=4, hcas=4), "ab").answer.failed)
    assert len(set(found.values())) == 1
    assert f"4 {GPU_RESOURCE} and 4 {RESOURCE}" in found["a"]


def test_two_pods_of_one_shape_share_a_node() -> None:
    """Two of four and four go to one node of two times four, a third does not, before any is bound (G9)."""
    known = cluster(record())
    one = decider(known)
    found = [one.filter(pod(name, gpus=4, hcas=4), ["a"], 0.0).answer.names for name in ("p", "q", "r")]
    assert found == [["a"], ["a"], []]


def test_only_pods_whose_way_is_not_known_stand_in_the_way() -> None:
    """Who is refused because of offers alone may wait a moment; who is refused by bound pods may not."""
    known = cluster(record(hcas=(4, 0), gpus=(4, 0)))
    one = decider(known)
    one.filter(pod("p", gpus=4, hcas=4), ["a"], 0.0)
    assert one.filter(pod("q", gpus=4, hcas=4), ["a"], 0.0).may_pass
    known.see_pod("uid-p", pod("p", gpus=4, hcas=4, node="a"), 0.0)
    assert not one.filter(pod("q", gpus=4, hcas=4), ["a"], 0.0).may_pass


def test_a_pod_asked_about_again_does_not_stand_in_its_own_way() -> None:
    """The filter may be called twice in a cycle, and again at each retry (G8, B-SC-43)."""
    known = cluster(record(hcas=(4, 0), gpus=(4, 0)))
    one = decider(known)
    assert [one.filter(pod(gpus=4, hcas=4), ["a"], 0.0).answer.names for _ in range(3)] == [["a"]] * 3
    assert len(known.holds) == 1


def test_a_hold_ends_when_the_pod_is_bound_elsewhere() -> None:
    """As soon as the pod is seen on one node, the others are free for the next."""
    known = cluster(record(hcas=(4, 0), gpus=(4, 0)), record("b", hcas=(4, 0), gpus=(4, 0)))
    one = decider(known)
    one.filter(pod("p", gpus=4, hcas=4), ["a", "b"], 0.0)
    assert one.filter(pod("q", gpus=4, hcas=4), ["a", "b"], 0.0).answer.names == []
    known.see_pod("uid-p", pod("p", gpus=4, hcas=4, node="b"), 0.0)
    assert one.filter(pod("q", gpus=4, hcas=4), ["a", "b"], 0.0).answer.names == ["a"]


def test_a_pod_counts_once_between_its_binding_and_the_record() -> None:
    """It is in flight until the record shows all that it asked for, and is not counted beside that (B-SC-35)."""
    known = cluster(record())
    one = decider(known)
    known.see_pod("uid-p", pod("p", gpus=4, hcas=4, node="a"), 0.0)
    held = {"uid-p": {GPU_RESOURCE: (4, 0)}}
    known.see_record("a", record(gpus=(0, 4), hcas=(4, 4), holders=held), 0.0)
    assert one.filter(pod("q", gpus=4, hcas=4), ["a"], 0.0).answer.names == []
    held = {"uid-p": {GPU_RESOURCE: (4, 0), RESOURCE: (4, 0)}}
    known.see_record("a", record(gpus=(0, 4), hcas=(0, 4), holders=held), 0.0)
    assert one.filter(pod("q", gpus=4, hcas=4), ["a"], 0.0).answer.names == ["a"]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        pytest.param({"node_uid": "another"}, "RecordOfAnotherNode", id="node made anew"),
        pytest.param({"boot_id": "another"}, "RecordOfAnotherNode", id="before a reboot"),
        pytest.param({"pools": ()}, "NotRegistered", id="no such resource"),
        pytest.param({"numa_nodes": ()}, "RecordAbsurd", id="no NUMA nodes"),
        pytest.param({"counts": counts(RESOURCE, (4, 3, 2))}, "RecordAbsurd", id="more than there are"),
        pytest.param({"counts": counts(RESOURCE, (4, -1, 2))}, "RecordAbsurd", id="less than none"),
    ],
)
def test_a_record_that_cannot_be_trusted_makes_its_node_unfit(changed: dict[str, object], code: str) -> None:
    """The node is unfit with the reason, and the one beside it unharmed (B-SC-23, B-SC-24)."""
    known = cluster(record(), record("b"))
    known.see_record("a", record(**changed), 0.0)  # type: ignore[arg-type]
    found = ask(known, pod(gpus=1, hcas=1), "ab").answer
    assert (codes(found.unresolvable), list(found.names)) == ({"a": code}, ["b"])


def test_nodes_without_record_and_unknown_ones_are_unfit() -> None:
    """What nobody has told of is no place to go, and nothing is kept for it (B-SC-29)."""
    known = cluster(record())
    known.see_node("b", NodeFacts("uid-b"))
    found = ask(known, pod(hcas=1), "abz").answer
    assert codes(found.unresolvable) == {"b": "NoRecord", "z": "NoRecord"}


def test_an_agent_that_is_away_for_long_is_not_believed() -> None:
    """A rollout of half a minute changes nothing; after that nobody knows what is free there (B-SC-20)."""
    known = cluster(record())
    one = decider(known)
    known.see_pod("agent-a", agent("a", ready=False), 100.0)
    assert one.filter(pod(hcas=1), ["a"], 129.0).answer.names == ["a"]
    assert codes(one.filter(pod(hcas=1), ["a"], 130.0).answer.unresolvable) == {"a": "AgentNotReady"}
    known.see_pod("agent-a", agent("a"), 131.0)
    assert one.filter(pod(hcas=1), ["a"], 131.0).answer.names == ["a"]


def test_a_pod_that_shares_gpus_is_refused_everywhere() -> None:
    """The platform's shared GPUs and RDMA do not go together, whatever the node (the document)."""
    known = cluster(record())
    found = ask(known, pod(hcas=1, limits={CONFLICTING_RESOURCES[0]: "10"})).answer
    assert codes(found.unresolvable) == {"a": "ResourcesConflict"}


def test_a_pod_without_our_resource_passes_unchanged() -> None:
    """Pods that ask for none of ours are none of our business, known nodes or not (B-SC-59, B-SC-9)."""
    assert list(ask(cluster(record()), pod(gpus=1), "abz").answer.names) == ["a", "b", "z"]


@pytest.mark.parametrize(("most", "offered"), [(0, 5), (2, 2), (8, 5)])
def test_only_the_best_few_are_offered(most: int, offered: int) -> None:
    """As many of five fit nodes are offered as the setting says, those with room on one NUMA node first."""
    wide = {name: record(name, policy=BEST_EFFORT, hcas=(2, 2)) for name in "abc"}
    whole: dict[str, Record] = {name: record(name, policy=BEST_EFFORT) for name in "de"}
    found = (
        decider(cluster(**wide, **whole), most_nodes=most).filter(pod(gpus=4, hcas=4), list("abcde"), 0.0).answer
    )
    assert len(found.names) == offered
    assert set(found.names) >= {"d", "e"}
    assert found.failed == b""


@pytest.mark.parametrize(
    ("policy", "hcas", "code"),
    [
        pytest.param(BEST_EFFORT, (4, 0), None, id="room on one node"),
        pytest.param(BEST_EFFORT, (2, 2), "NotAlignedNow", id="room on two"),
        pytest.param(NONE, (4, 4), "PolicyNeverAligns", id="nobody aligns"),
    ],
)
def test_who_insists_on_one_numa_node_is_refused_without(
    policy: TopologyPolicy, hcas: tuple[int, int], code: str | None
) -> None:
    """best-effort never refuses for alignment, unless the pod says that it is required (design 6)."""
    found = ask(cluster(record(policy=policy, hcas=hcas)), pod(gpus=4, hcas=4, locality="required-numa")).answer
    assert {**codes(found.failed), **codes(found.unresolvable)} == ({"a": code} if code else {})


def test_under_best_effort_who_insists_does_not_rely_on_who_does_not() -> None:
    """Pods on their way may be dealt ids of any NUMA node there: only the sum of all makes it safe."""
    known = cluster(record(policy=BEST_EFFORT))
    known.see_pod("uid-p", pod("p", gpus=4, hcas=4, node="a"), 0.0)
    insisting = pod("q", gpus=4, hcas=4, locality="required-numa")
    assert codes(ask(known, insisting).answer.failed) == {"a": "PodsOnTheirWay"}
    assert ask(known, pod("r", gpus=4, hcas=4)).answer.names == ["a"]


def test_a_pod_that_the_kubelet_turned_away_is_not_repeated_there() -> None:
    """Its like goes elsewhere until the node's record changes, and others may still come (B-SC-2, B-SC-21)."""
    known = cluster(record(policy=BEST_EFFORT))
    one = decider(known)
    known.see_pod("uid-p", pod("p", gpus=4, hcas=4, node="a"), 0.0)
    status = {"phase": "Failed", "reason": "TopologyAffinityError"}
    known.see_pod("uid-p", pod("p", gpus=4, hcas=4, node="a", status=status), 0.0)
    again = pod("q", gpus=4, hcas=4)
    assert codes(one.filter(again, ["a"], 0.0).answer.failed) == {"a": "TurnedAwayBefore"}
    assert one.filter(pod("r", gpus=1, hcas=1), ["a"], 0.0).answer.names == ["a"]
    known.see_record("a", record(policy=BEST_EFFORT, sequence=1), 0.0)
    assert one.filter(again, ["a"], 0.0).answer.names == ["a"]
    assert known.turned_away == 1


def _unplaced(words: str) -> dict[str, object]:
    said = {"type": "PodScheduled", "status": "False", "message": words}
    return {"phase": "Pending", "conditions": [said]}


@pytest.mark.parametrize(
    ("before", "after", "holds"),
    [
        pytest.param("", "0/1 nodes are available", 0, id="no place after all"),
        pytest.param("no memory", "no CPU", 0, id="another reason than the last time"),
        pytest.param("no memory", "no memory", 1, id="what was said before the hold"),
    ],
)
def test_a_hold_ends_when_the_scheduler_finds_no_place(before: str, after: str, holds: int) -> None:
    """Other filters and binds may fail: what is said anew ends the hold, what was said before does not."""
    known = cluster(record())
    known.see_pod("uid-p", pod("p", hcas=1, status=_unplaced(before) if before else {}), 0.0)
    decider(known).filter(pod("p", hcas=1), ["a"], 0.0)
    known.see_pod("uid-p", pod("p", hcas=1, status=_unplaced(after)), 2.0)
    assert len(known.holds) == holds


def test_what_the_scheduler_said_of_an_earlier_try_ends_no_hold() -> None:
    """The watch may tell of it when the pod has been offered a node by then, and is on its way."""
    known = cluster(record())
    known.see_pod("uid-p", pod("p", hcas=1), 0.0)
    decider(known).filter(pod("p", hcas=1), ["a"], 1.0)
    known.see_pod("uid-p", pod("p", hcas=1, status=_unplaced("no place")), 2.5)
    assert known.holds.keys() == {"uid-p"}


def test_a_hold_that_nobody_ends_is_dropped() -> None:
    """After half a minute if its pod was never seen, after the time that is set in any case."""
    known = cluster(record())
    one = decider(known)
    known.see_pod("uid-p", pod("p", hcas=1), 0.0)
    for name in ("p", "q"):
        one.filter(pod(name, hcas=1), ["a"], 0.0)
    known.expire(29.0, 600.0)
    assert known.holds.keys() == {"uid-p", "uid-q"}
    known.expire(30.0, 600.0)
    assert known.holds.keys() == {"uid-p"}
    known.expire(600.0, 600.0)
    assert known.holds.keys() == set()
