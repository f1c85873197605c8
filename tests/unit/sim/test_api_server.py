"""The small API server, asked by the clients that the agent asks the real one with. It must not test these."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.builders import LogLines
from tests.unit.running import running

from railside_agent.node_label import NodeLabel
from railside_agent.node_pods import NodePods
from railside_proto.names import MODE_LABEL, RESOURCE
from railside_runtime.kube import KubeApi
from railside_sim.api_server import ApiServer, Told
from railside_sim.pod_spec import ContainerSpec, Pod

POD = Pod(name="train", uid="u1", containers=(ContainerSpec(requests={RESOURCE: 1}),))


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer("node-0", {MODE_LABEL: "ib-shared"}) as serving:
        yield serving


@pytest.fixture
async def client(server: ApiServer, tmp_path: Path) -> AsyncIterator[KubeApi]:
    kubeconfig = tmp_path / "kubeconfig"
    await asyncio.to_thread(kubeconfig.write_text, server.kubeconfig())
    api = KubeApi(str(kubeconfig))
    yield api
    await api.close()


async def test_a_label_is_seen_and_so_is_its_change(server: ApiServer, client: KubeApi, written: LogLines) -> None:
    """A watch of the node tells its label, and the next one as soon as it is set."""
    node = NodeLabel(client, "node-0", written.log)
    async with asyncio.timeout(10), running(node):
        await node.facts.until(lambda facts: facts.label == "ib-shared")
        await server.label(MODE_LABEL, "ib-shared-multi")
        await node.facts.until(lambda facts: facts.label == "ib-shared-multi")


async def test_a_pod_comes_and_ends(server: ApiServer, client: KubeApi, written: LogLines) -> None:
    """A watch of the pods tells of one with what it asks for, and of its end with all containers stopped."""
    pods = NodePods(client, "node-0", written.log)
    async with asyncio.timeout(10), running(pods):
        await pods.pods.until(lambda seen: seen.synced)
        await server.put_pod(POD)
        seen = await pods.pods.until(lambda seen: bool(seen.pods))
        assert [(one.name, one.uid, one.containers[0].resources) for one in seen.pods] == [
            ("train", "u1", (RESOURCE,))
        ]
        await server.end_pod("train")
        await pods.pods.until(lambda seen: seen.over == {"u1"} and not seen.pods)


async def test_what_was_there_before_is_listed(server: ApiServer, client: KubeApi, written: LogLines) -> None:
    """A client that comes later lists what is there, and not what has ended."""
    await server.put_pod(POD)
    await server.put_pod(Pod(name="gone", uid="u2", containers=POD.containers))
    await server.end_pod("gone")
    pods = NodePods(client, "node-0", written.log)
    async with asyncio.timeout(10), running(pods):
        seen = await pods.pods.until(lambda seen: seen.synced)
        assert [one.name for one in seen.pods] == ["train"]


async def test_an_event_is_kept_and_waited_for(server: ApiServer, client: KubeApi) -> None:
    """An Event that is posted can be read; one that is told again is no second one."""
    path = "/api/v1/namespaces/default/events"
    waiting = asyncio.create_task(server.until_told(lambda one: one.reason == "NoActivePort"))
    body = {"involvedObject": {"kind": "Pod", "name": "train"}, "reason": "NoActivePort", "message": "it is down"}
    await client.post(path, body)
    await client.patch(f"{path}/train.1", {"count": 2}, "application/merge-patch+json")
    told = Told(kind="Pod", name="train", reason="NoActivePort", message="it is down")
    assert await waiting == told
    assert server.events == [told]
