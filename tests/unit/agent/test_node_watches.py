import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.builders import LogLines
from tests.unit.kube_server import FakeApiServer
from tests.unit.running import running

from railside_agent.mode import NotSeen
from railside_agent.node_label import NodeLabel
from railside_agent.node_pods import NodePods
from railside_agent.own_node import NodeFacts
from railside_proto.names import MODE_LABEL
from railside_runtime.kube import KubeApi
from railside_runtime.reflector import Pace

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
QUICK = Pace(first_pause=0.002, longest_pause=0.02)


@pytest.fixture
async def api(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[KubeApi]:
    one = KubeApi(server.kubeconfig(tmp_path))
    yield one
    await one.close()


async def test_the_label_is_followed(server: FakeApiServer, api: KubeApi, written: LogLines) -> None:
    """A label that is set, changed and taken off arrives each time, by a watch of the own node alone (B-DP-61)."""
    label = NodeLabel(api, "n1", written.log, QUICK)
    async with running(label), asyncio.timeout(10):
        await label.facts.until(lambda facts: "knows no node" in (facts.problem or ""))
        for labels in ({}, {MODE_LABEL: "ib-shared"}, {MODE_LABEL: "ib-shared-multi"}, {}):
            server.put(NODES, "n1", metadata={"labels": labels})
            wanted = labels.get(MODE_LABEL)
            await label.facts.until(lambda facts, wanted=wanted: facts.seen and facts.label == wanted)  # type: ignore[misc]
        assert {one.query["fieldSelector"] for one in server.asked} == {"metadata.name=n1"}


async def test_a_server_that_thinks_has_not_said_that_there_is_no_node(
    server: FakeApiServer, api: KubeApi, written: LogLines
) -> None:
    """Until the first list is there the node is not seen, and nothing is said about it."""
    label = NodeLabel(api, "n1", written.log, QUICK)
    server.hang = True
    async with running(label), asyncio.timeout(10):
        await server.until_asked(1)
        assert label.facts.value == NodeFacts()
        await server.recover()


async def test_a_label_outlives_its_server(server: FakeApiServer, api: KubeApi, written: LogLines) -> None:
    """An API server that goes away takes no label along; one that never came leaves it unseen, with the reason."""
    label = NodeLabel(api, "n1", written.log, QUICK)
    await server.stop()
    async with running(label), asyncio.timeout(10):
        absent = await label.facts.until(lambda facts: "cannot be reached" in (facts.problem or ""))
        assert isinstance(absent.label, NotSeen)
        server.put(NODES, "n1", metadata={"labels": {MODE_LABEL: "ib-shared"}})
        await server.start()
        await label.facts.until(lambda facts: facts.label == "ib-shared" and facts.problem is None)
        await server.stop()
        gone = await label.facts.until(lambda facts: facts.problem is not None)
        assert gone.label == "ib-shared"


async def test_pods_come_end_and_go(server: FakeApiServer, api: KubeApi, written: LogLines) -> None:
    """A pod is alive, then ended, and that stays known when its object is gone."""
    watched = NodePods(api, "n1", written.log, QUICK)
    async with running(watched), asyncio.timeout(10):
        uid = server.put(PODS, "train", status={"phase": "Running"})["metadata"]["uid"]
        await watched.pods.until(lambda pods: pods.ended(uid) is False)
        server.put(PODS, "train", status={"phase": "Succeeded"})
        await watched.pods.until(lambda pods: pods.ended(uid) is True)
        server.delete(PODS, "train")
        gone = await watched.pods.until(lambda pods: uid not in pods.by_uid)
        assert (gone.synced, gone.ended(uid)) == (True, True)
        assert {one.query["fieldSelector"] for one in server.asked} == {"spec.nodeName=n1"}


async def test_pods_stay_while_the_server_is_away(server: FakeApiServer, api: KubeApi, written: LogLines) -> None:
    """Pods that were seen stay as they were while the API server is away, with the problem beside them."""
    watched = NodePods(api, "n1", written.log, QUICK)
    uid = server.put(PODS, "train", status={"phase": "Running"})["metadata"]["uid"]
    async with running(watched), asyncio.timeout(10):
        await watched.pods.until(lambda pods: pods.ended(uid) is False and pods.problem is None)
        await server.stop()
        pods = await watched.pods.until(lambda pods: pods.problem is not None)
        assert (pods.synced, pods.ended(uid)) == (True, False)
