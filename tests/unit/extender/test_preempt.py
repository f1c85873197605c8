"""Whom the extender has evicted."""

import json
from typing import Any

import msgspec
import pytest
from tests.unit.extender.nodes import cluster, pod, record
from tests.unit.extender.test_decider import decider
from tests.unit.extender.test_server import served

from railside_extender.cluster import Cluster
from railside_extender.pod_facts import PodFacts
from railside_proto.names import GPU_RESOURCE, RESOURCE


def important(name: str, priority: int, **asked: Any) -> PodFacts:  # noqa: ANN401 -- as pod()
    return msgspec.structs.replace(pod(name, **asked), priority=priority)


def full(**holders: tuple[tuple[int, int], int]) -> Cluster:
    """A node whose pods, by name, hold GPUs and HCAs of either NUMA node, and have a priority."""
    held = {f"uid-{name}": {GPU_RESOURCE: amounts, RESOURCE: amounts} for name, (amounts, _) in holders.items()}
    left = tuple(4 - sum(amounts[node] for amounts, _ in holders.values()) for node in (0, 1))
    known = cluster(record(hcas=left, gpus=left, holders=held))
    for name, (amounts, priority) in holders.items():
        asked = sum(amounts)
        known.see_pod(f"uid-{name}", important(name, priority, gpus=asked, hcas=asked, node="a"), 0.0)
    return known


@pytest.mark.parametrize(
    ("holders", "proposed", "evicted"),
    [
        pytest.param({"p": ((4, 0), 1)}, ["p"], ["p"], id="who is proposed is enough"),
        pytest.param({"p": ((2, 0), 1), "q": ((0, 2), 1)}, ["p"], ["p"], id="one node becomes free"),
        pytest.param({"p": ((1, 0), 1), "q": ((1, 0), 2), "r": ((0, 2), 3)}, ["r"], ["r"], id="the other node"),
        pytest.param(
            {"p": ((1, 0), 1), "q": ((0, 1), 2), "r": ((1, 1), 3)},
            ["r"],
            ["r", "p"],
            id="one more, the least important",
        ),
        pytest.param({"p": ((1, 0), 9), "q": ((0, 1), 9)}, [], None, id="nobody is less important"),
        pytest.param({"p": ((1, 0), 1), "q": ((0, 1), 2)}, [], ["p"], id="nobody proposed (B-SC-8)"),
        pytest.param({"p": ((1, 1), 1)}, ["gone"], ["p"], id="who is not there is not named (G12)"),
    ],
)
def test_as_few_go_as_make_room_on_one_node(
    holders: dict[str, tuple[tuple[int, int], int]], proposed: list[str], evicted: list[str] | None
) -> None:
    """A pod of four and four with priority 5 on a node of two times four (B-SC-7, B-SC-34)."""
    coming = important("new", 5, gpus=4, hcas=4)
    found = decider(full(**holders)).preempt(coming, {"a": [f"uid-{name}" for name in proposed]})
    assert found == ({"a": tuple(f"uid-{name}" for name in evicted)} if evicted else {})


def test_a_pod_without_our_resource_is_preempted_for_as_proposed() -> None:
    """The scheduler asks about every pod, whether ours or not (B-SC-9)."""
    known = full(p=((4, 0), 1))
    assert decider(known).preempt(important("new", 5, gpus=4), {"a": ["uid-p"]}) == {"a": ("uid-p",)}


@pytest.mark.parametrize("form", ["NodeNameToMetaVictims", "NodeNameToVictims"])
async def test_both_forms_are_read_and_answered_with_uids(form: str) -> None:
    """Whole pods come from schedulers that are not cache-capable; UIDs alone go back, and budgets are kept."""
    known = full(p=((4, 0), 1))
    known_pod = {"UID": "uid-p"} if form == "NodeNameToMetaVictims" else {"metadata": {"uid": "uid-p"}}
    limits = {GPU_RESOURCE: "4", RESOURCE: "4"}
    coming = {
        "metadata": {"uid": "uid-new", "name": "new", "namespace": "default"},
        "spec": {"priority": 5, "containers": [{"name": "main", "resources": {"limits": limits}}]},
    }
    body = {"Pod": coming, form: {"a": {"Pods": [known_pod], "NumPDBViolations": 1}}}
    async with served(known) as client, client.post("/preempt", json=body) as answer:
        said = json.loads(await answer.read())
    assert said == {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "uid-p"}], "NumPDBViolations": 1}}}
