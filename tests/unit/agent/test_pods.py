from typing import Any

import msgspec
import pytest

from railside_agent.pods import Pod, PodContainer, PodObject, Pods, pods
from railside_proto.names import LOCALITY, LOCALITY_ENFORCE, MIRROR_POD, RESOURCE, STATIC_POD_UID


def _pod(name: str = "train", uid: str = "", /, **fields: Any) -> PodObject:  # noqa: ANN401 -- as JSON has it
    metadata = {"name": name, "namespace": "team", "uid": uid or f"u-{name}", **fields.pop("metadata", {})}
    return msgspec.convert({"metadata": metadata, **fields}, PodObject)


def _mirror(name: str, uid: str, static_uid: str, phase: str = "Running", **annotations: str) -> PodObject:
    both = {MIRROR_POD: static_uid, STATIC_POD_UID: static_uid, **annotations}
    return _pod(name, uid, metadata={"annotations": both}, status={"phase": phase})


def _seen(*objects: PodObject) -> Pods:
    return pods(objects, synced=True, problem=None)


_RUNS = [{"name": "main", "state": {"running": {"startedAt": "2026-11-30T00:00:00Z"}}}]
_DONE = [{"name": "main", "state": {"terminated": {"exitCode": 0}}}]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"phase": "Pending"}, False, id="pending"),
        pytest.param({"phase": "Running", "containerStatuses": _RUNS}, False, id="running"),
        pytest.param({"phase": "Running", "containerStatuses": _DONE}, False, id="between-two-starts"),
        pytest.param({"phase": "Unknown"}, False, id="unknown"),
        pytest.param({}, False, id="no-status-yet"),
        pytest.param({"phase": "Succeeded", "containerStatuses": _DONE}, True, id="succeeded"),
        pytest.param({"phase": "Failed", "containerStatuses": _DONE}, True, id="failed"),
        pytest.param({"phase": "Failed", "reason": "Evicted"}, False, id="evicted-and-nothing-said-of-containers"),
        pytest.param({"phase": "Failed", "containerStatuses": _RUNS}, False, id="called-failed-but-runs"),
        pytest.param({"phase": "Failed", "initContainerStatuses": _RUNS}, False, id="sidecar-runs"),
    ],
)
def test_when_a_pod_has_ended(status: dict[str, Any], *, expected: bool) -> None:
    """A pod has ended when its phase says so and each of its containers is said to have stopped."""
    assert expected == _seen(_pod(status=status, spec={"containers": [{"name": "main"}]})).ended("u-train")


@pytest.mark.parametrize(
    ("status", "alive"),
    [
        pytest.param({"phase": "Running"}, True, id="running"),
        pytest.param({"phase": "Pending"}, True, id="on-its-way"),
        pytest.param({"phase": "Failed"}, False, id="turned-away-by-the-kubelet"),
        pytest.param({"phase": "Succeeded"}, False, id="done"),
        pytest.param(
            {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"running": {}}}]},
            True,
            id="called-failed-and-running",
        ),
    ],
)
def test_who_lives(status: dict[str, Any], *, alive: bool) -> None:
    """A pod that was turned away never had a container, and hides no HCA for as long as its object stands."""
    seen = _seen(_pod("train", "u1", spec={"containers": [{"name": "main"}]}, status=status))
    assert seen.alive(["u1", "stranger"]) == ({"u1"} if alive else frozenset())


def test_a_terminating_pod_has_not_ended() -> None:
    """A pod that is told to go holds what it holds until its containers are done."""
    (pod,) = _seen(_pod(metadata={"deletionTimestamp": "2026-11-30T00:00:00Z"}, status={"phase": "Running"})).pods
    assert (pod.terminating, pod.ended) == (True, False)


def test_absence_is_no_end() -> None:
    """Of a pod that is not in the picture nothing is known, also when the picture is whole."""
    assert _seen().ended("u-train") is None


def _without(*gone: PodObject) -> Pods:
    """The picture after ``gone`` were deleted, as they were at the end."""
    return pods((), synced=True, problem=None, gone=gone, before=_seen(*gone))


_ONE_CONTAINER = {"containers": [{"name": "main"}]}


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"phase": "Running", "containerStatuses": _RUNS}, id="runs"),
        pytest.param({"phase": "Pending"}, id="nothing-is-told"),
        pytest.param({"phase": "Pending", "containerStatuses": [{"name": "main"}]}, id="no-state"),
        pytest.param(
            {"phase": "Running", "containerStatuses": _DONE, "initContainerStatuses": _RUNS}, id="sidecar-runs"
        ),
    ],
)
def test_a_pod_that_is_deleted_by_force_has_not_ended(status: dict[str, Any]) -> None:
    """An object that goes while its containers may run says nothing of their end (law 5)."""
    seen = _without(_pod(spec=_ONE_CONTAINER, status=status))
    assert (seen.ended("u-train"), seen.over) == (None, frozenset())


def test_a_pod_that_was_deleted_when_its_containers_had_stopped_is_over() -> None:
    """So the kubelet leaves a pod that was told to go; a later picture without it does not forget that."""
    stopped = {"phase": "Running", "containerStatuses": _DONE}
    seen = _without(_pod(spec=_ONE_CONTAINER, status=stopped))
    later = pods((), synced=True, problem=None, before=seen)
    assert (seen.over, later.over, later.ended("u-train")) == (*[frozenset({"u-train"})] * 2, True)


def test_a_pod_that_is_there_again_is_not_over() -> None:
    """What a picture shows counts for more than what an earlier one had lost."""
    pod = _pod(spec=_ONE_CONTAINER, status={"phase": "Running", "containerStatuses": _DONE})
    again = pods((pod,), synced=True, problem=None, before=_without(pod))
    assert (again.over, again.ended("u-train")) == (frozenset(), False)


def test_a_static_pod_is_found_by_both_its_uids() -> None:
    """The kubelet's checkpoint knows a static pod by its hash, the API server by its mirror's UID."""
    seen = _seen(_mirror("etcd-n1", "u-mirror", "hash-1", phase="Failed"))
    assert (seen.ended("u-mirror"), seen.ended("hash-1")) == (True, True)
    assert seen.by_uid["hash-1"].static_uid == "hash-1"


@pytest.mark.parametrize(
    "liar",
    [
        pytest.param(_mirror("liar", "u-liar", "u-victim", phase="Failed"), id="claims-a-pods-uid"),
        pytest.param(
            _pod("liar", metadata={"annotations": {STATIC_POD_UID: "hash-1"}}, status={"phase": "Failed"}),
            id="no-mirror",
        ),
        pytest.param(_mirror("liar", "u-liar", "hash-1", phase="Failed", **{MIRROR_POD: "x"}), id="two-values"),
    ],
)
def test_a_pod_cannot_speak_for_another(liar: PodObject) -> None:
    """Annotations that anybody may write do not make a live pod look ended."""
    victim = _pod("victim", status={"phase": "Running"})
    static = _mirror("etcd-n1", "u-mirror", "hash-1")
    seen = _seen(liar, victim, static)
    assert (seen.ended("u-victim"), seen.ended("hash-1")) == (False, False)


def test_a_uid_that_two_pods_claim_is_nobodys() -> None:
    """Where two pods claim to be the same static pod, neither is believed."""
    seen = _seen(_mirror("etcd-n1", "u1", "hash-1"), _mirror("liar", "u2", "hash-1", phase="Failed"))
    assert seen.ended("hash-1") is None


def test_what_a_pod_asks_for() -> None:
    """Name, namespace, annotations and the resources of each container, init containers first, are kept."""
    annotations = {LOCALITY: "required-pcie", LOCALITY_ENFORCE: "true", "other": "x"}
    spec = {
        "initContainers": [{"name": "before"}],
        "containers": [
            {"name": "main", "resources": {"limits": {RESOURCE: "1", "nvidia.com/gpu": 1, "cpu": 0.5}}},
            {"name": "side", "resources": {"requests": {"cpu": "1"}}},
        ],
    }
    (pod,) = _seen(_pod(metadata={"annotations": annotations}, spec=spec)).pods
    assert pod == Pod(
        uid="u-train",
        name="train",
        namespace="team",
        ended=False,
        terminating=False,
        locality="required-pcie",
        locality_enforce=True,
        containers=(
            PodContainer(name="before", resources=()),
            PodContainer(name="main", resources=("cpu", "nvidia.com/gpu", RESOURCE)),
            PodContainer(name="side", resources=()),
        ),
    )


@pytest.mark.parametrize("said", ["false", "True", "yes", ""])
def test_only_true_enforces(said: str) -> None:
    """Nearness is enforced by the word true alone."""
    (pod,) = _seen(_pod(metadata={"annotations": {LOCALITY_ENFORCE: said}})).pods
    assert not pod.locality_enforce


def test_empty_parts_of_a_pod_are_no_harm() -> None:
    """Fields that are null or missing are as if empty."""
    nothing = {"containers": None, "initContainers": None}
    status = {"phase": "Failed", "containerStatuses": None}
    (pod,) = _seen(_pod(metadata={"annotations": None}, spec=nothing, status=status)).pods
    assert (pod.containers, pod.ended) == ((), True)
