"""The extender's program beside a real kube-scheduler, configured as deploy/scheduler does, on a real API server.

It answers for what becomes of pods: where they go, what they are told, and what happens while the extender is
away. It must not test which nodes are fit: nodes and records are made by hand, and no kubelet admits anything.
"""

import json
from collections.abc import Callable, Iterator

import pytest

from extended_scheduler import ExtendedScheduler, account, extended_scheduler, install
from hand_made import HandMade, hand_made, pod
from harness import waiting
from harness.api import Answer, HttpsClient
from harness.cluster import Cluster
from harness.kubectl import HTTP_OK, Kubectl
from harness.network import API_SERVICE
from harness.objects import Condition, Node, Pod
from railside_proto.names import GPU_RESOURCE, RESOURCE, WAKE

TORN = (2, 2)
"""As much room as four need, and on no NUMA node."""

FORBIDDEN = 403

BACKOFF_S = 30
"""Longer than a scheduler lets a pod wait after an error."""

STAGES = ("where", "wide", "plain", "restarts", "away")


@pytest.fixture(scope="module")
def nodes(kubectl: Kubectl) -> Iterator[HandMade]:
    """A node with aligned room in each stage, and torn ones where tests want them."""
    install(kubectl)
    with hand_made(kubectl) as made:
        for stage in STAGES:
            made.add(stage, f"{stage}-whole", gpus=(4, 0), hcas=(4, 0))
        made.add("later", "later-node", hcas=TORN)
        for number in (1, 2, 3):
            made.add("where", f"where-torn-{number}", hcas=TORN)
            made.add("torn", f"torn-{number}", hcas=TORN)
        yield made


@pytest.fixture(scope="module")
def both(cluster: Cluster, nodes: HandMade) -> Iterator[ExtendedScheduler]:
    """The two programs, which have read all of these ``nodes``."""
    assert nodes.kubectl is cluster.kubectl
    with extended_scheduler(cluster) as running:
        yield running


def bound(pod: Pod) -> bool:
    return bool(pod.spec.node_name)


def unplaced(pod: Pod) -> Condition | None:
    """Why the scheduler has not placed it; None while it has not said so."""
    return next(
        (one for one in pod.status.conditions if (one.type, one.status) == ("PodScheduled", "False")), None
    )


def placed(kubectl: Kubectl, name: str, timeout_s: float = BACKOFF_S) -> str:
    """The node that a pod goes to."""
    return kubectl.wait(Pod, name, bound, timeout_s=timeout_s).spec.node_name


def refused(kubectl: Kubectl, name: str, reason: str) -> str:
    """What a pod is told that is not placed for ``reason``."""

    def fits(pod: Pod) -> bool:
        told = unplaced(pod)
        return told is not None and told.reason == reason

    told = unplaced(kubectl.wait(Pod, name, fits))
    assert told is not None
    return told.message


def events(kubectl: Kubectl, name: str) -> list[str]:
    """What the scheduler has told of a pod that it did not place."""
    chosen = f"--field-selector=involvedObject.name={name},reason=FailedScheduling"
    return [one["message"] for one in kubectl.get("events", chosen)["items"]]


def asked(gpus: int, hcas: int) -> str:
    return f"{gpus} {GPU_RESOURCE} and {hcas} {RESOURCE}"


@pytest.mark.usefixtures("both")
def test_a_pod_goes_where_its_room_is_aligned(kubectl: Kubectl) -> None:
    """Of four nodes with as many free HCAs in all, the one that has them beside free GPUs (restricted)."""
    kubectl.apply(pod("where", "aligned", gpus=4, hcas=4))
    assert placed(kubectl, "aligned") == "where-whole"


@pytest.mark.usefixtures("both")
def test_a_refusal_names_the_reason_and_counts_nodes(kubectl: Kubectl) -> None:
    """FailedScheduling says once for three nodes what they lack, with the numbers that the pod asks for."""
    kubectl.apply(pod("torn", "torn", gpus=4, hcas=4))
    sentence = f"3 NotAlignedNow: no NUMA nodes have {asked(4, 4)} free together now"
    assert sentence in refused(kubectl, "torn", "Unschedulable")
    found = waiting.until_value(lambda: events(kubectl, "torn") or None, "an Event of the refusal")
    assert sentence in found[0]


@pytest.mark.usefixtures("both")
def test_what_can_never_be_is_unschedulable_and_says_why(kubectl: Kubectl) -> None:
    """Eight GPUs take both NUMA nodes and one HCA takes one: no kubelet would admit it, and nobody is evicted."""
    kubectl.apply(pod("wide", "wide", gpus=8, hcas=1))
    told = refused(kubectl, "wide", "Unschedulable")
    assert f"1 WidthsDiffer: {asked(8, 1)} take different numbers of NUMA nodes there, which policy" in told
    assert "Preemption is not helpful for scheduling" in told


@pytest.mark.parametrize("graceful", [True, False])
def test_after_a_restart_of_the_extender_pods_go_on(
    kubectl: Kubectl, both: ExtendedScheduler, *, graceful: bool
) -> None:
    """Stopped or killed, it reads the cluster anew, and places the next pod."""
    both.extender.restart(graceful=graceful)
    name = f"restart-{graceful}".lower()
    kubectl.apply(pod("restarts", name, gpus=2, hcas=2))
    assert placed(kubectl, name) == "restarts-whole"


def test_while_the_extender_is_away_its_pods_wait_and_no_others(kubectl: Kubectl, both: ExtendedScheduler) -> None:
    """A pod with an HCA waits with an error, and is placed when it is back; one without is placed at once."""
    both.extender.kill()
    try:
        kubectl.apply(pod("away", "waits", gpus=4, hcas=4), pod("plain", "plain", gpus=1))
        assert placed(kubectl, "plain") == "plain-whole"
        told = refused(kubectl, "waits", "SchedulerError")
    finally:
        both.extender.start()
    assert "connection refused" in told
    assert placed(kubectl, "waits") == "away-whole"


@pytest.mark.usefixtures("both")
def test_a_refused_pod_is_placed_as_soon_as_a_record_shows_room(kubectl: Kubectl, nodes: HandMade) -> None:
    """The scheduler looks at no record; a touch of the node has it try again, which would take it minutes else."""
    kubectl.apply(pod("later", "later", gpus=4, hcas=4))
    refused(kubectl, "later", "Unschedulable")
    nodes.tell("later-node")
    assert placed(kubectl, "later") == "later-node"
    node = kubectl.read(Node, "later-node")
    assert node is not None
    assert WAKE in node.metadata.annotations


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"metadata": {"labels": {"example.com/mine": "1"}}}, id="label"),
        pytest.param({"metadata": {"annotations": {"example.com/mine": "1"}}}, id="another-annotation"),
        pytest.param({"metadata": {"annotations": {WAKE: "1"}}, "spec": {"unschedulable": True}}, id="cordon"),
    ],
)
@pytest.mark.parametrize("name", ["railside-extender", "railside-scheduler"])
def test_the_extender_may_change_one_annotation_of_a_node(
    cluster: Cluster, name: str, change: dict[str, object]
) -> None:
    """The API server takes that from either account and refuses all else, whatever comes along with it."""
    patch = patching(cluster, name)
    waiting.until(lambda: patch(change).status == FORBIDDEN, "the policy to be in force")
    assert f"but the annotation {WAKE}" in patch(change).body.decode()
    assert patch({"metadata": {"annotations": {WAKE: "another"}}}).status == HTTP_OK


def patching(cluster: Cluster, name: str) -> Callable[[dict[str, object]], Answer]:
    """Changes a node as a service account, on trial only."""
    identity = cluster.authority.issue(f"{name}-on-trial", account(name))
    client = HttpsClient(str(API_SERVICE), 443, cluster.authority.own.crt, identity)
    return lambda change: client.patch(f"{Node.PATH}/plain-whole?dryRun=All", json.dumps(change))
