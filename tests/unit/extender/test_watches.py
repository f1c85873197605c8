"""The cluster as the watches show it, whatever the API server goes through meanwhile."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.builders import LogLines
from tests.unit.extender.nodes import pod_json, record
from tests.unit.extender.served_nodes import NODES, PODS, put_node
from tests.unit.extender.test_decider import codes, decider
from tests.unit.kube_server import FakeApiServer
from tests.unit.running import running

from railside_extender.cluster import Cluster
from railside_extender.holds import UNSEEN_SECONDS
from railside_extender.objects import NodeObject, RecordObject, node_facts, read_record
from railside_extender.pod_facts import PodObject, pod_facts
from railside_extender.watches import Watches
from railside_proto.names import RECORDS
from railside_proto.reasons import Code, Reason
from railside_runtime.kube import KubeApi
from railside_runtime.reflector import Pace

QUICK = Pace(first_pause=0.002, longest_pause=0.02)


@pytest.fixture
async def api(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[KubeApi]:
    one = KubeApi(server.kubeconfig(tmp_path))
    yield one
    await one.close()


def watching(api: KubeApi, known: Cluster, written: LogLines) -> Watches:
    return Watches(api, known, clock=lambda: 0.0, log=written.log, pace=QUICK)


def put_pod(server: FakeApiServer, name: str, *, node: str = "", phase: str = "Pending") -> str:
    """A pod of four and four; its UID."""
    asked = pod_json(name, gpus=4, hcas=4, node=node)
    found = server.put(PODS, name, spec=asked["spec"], status={"phase": phase})
    return str(found["metadata"]["uid"])


async def until(watches: Watches, holds: Any) -> None:  # noqa: ANN401 -- a condition
    """Return when ``holds()``: what was read is known at a change, and that all was read a moment later."""
    async with asyncio.timeout(10):
        while not holds():
            await _moved(watches)


async def _moved(watches: Watches) -> None:
    """Return at a change, or soon."""
    change = asyncio.create_task(watches.moved.newer(watches.moved.value))
    await asyncio.wait([change], timeout=0.005)
    change.cancel()


async def test_what_was_never_read_is_named(server: FakeApiServer, api: KubeApi, written: LogLines) -> None:
    """Nodes, records and pods: until all three were read, the extender is not ready."""
    known = Cluster()
    watches = watching(api, known, written)
    assert watches.not_ready() == "nodes, records, pods of the cluster were not read yet"
    put_node(server, "a")
    async with running(watches):
        await until(watches, lambda: not watches.not_ready())
    assert list(known.records) == ["a"]


async def test_a_node_made_anew_is_another_node(server: FakeApiServer, api: KubeApi, written: LogLines) -> None:
    """Under the same name with another UID: its record is of the old one until its agent has written (B-SC-53)."""
    known = Cluster()
    watches = watching(api, known, written)
    put_node(server, "a")
    async with running(watches):
        await until(watches, lambda: not watches.not_ready() and not isinstance(known.standing("a"), Reason))
        server.replace(NODES, "a", status={"nodeInfo": {"bootID": "boot"}})
        await until(watches, lambda: isinstance(known.standing("a"), Reason))
        found = known.standing("a")
        assert isinstance(found, Reason)
        assert found.code is Code.RECORD_OF_ANOTHER_NODE
        put_node(server, "a")
        await until(watches, lambda: not isinstance(known.standing("a"), Reason))


async def test_a_record_that_cannot_be_read_harms_its_node_alone(
    server: FakeApiServer, api: KubeApi, written: LogLines
) -> None:
    """The node is unfit with the reason, though an earlier record of it made sense."""
    known = Cluster()
    watches = watching(api, known, written)
    put_node(server, "a")
    put_node(server, "b")
    async with running(watches):
        await until(watches, lambda: not watches.not_ready())
        server.put(RECORDS, "a", status={"counts": "many"})
        await until(watches, lambda: isinstance(known.records["a"], Reason))
    assert codes(decider(known).filter(pod_facts_of("p"), ["a", "b"], 0.0).answer.unresolvable) == {
        "a": "RecordAbsurd"
    }


def pod_facts_of(name: str) -> Any:  # noqa: ANN401 -- PodFacts
    return pod_facts(msgspec.convert(pod_json(name, gpus=4, hcas=4), PodObject))


async def test_chaos_leaves_the_state_as_the_server_has_it(
    server: FakeApiServer, api: KubeApi, written: LogLines
) -> None:
    """Objects come, change and go while connections are cut, lines repeated, history forgotten, the server away.

    Afterwards all is as one who only now begins to look sees it, and nothing is held for a pod that is bound or
    gone (B-SC-53, B-SC-30).
    """
    seed = secrets.token_hex(4)
    rng = random.Random(seed)  # noqa: S311 -- not a secret
    known = Cluster()
    watches, one = watching(api, known, written), decider(known)
    put_node(server, "a")
    async with running(watches):
        for number in range(150):
            await _step(rng, server, number)
            if rng.random() < 0.4:
                uid = put_pod(server, f"p{number}")
                facts = msgspec.structs.replace(pod_facts_of(f"p{number}"), uid=uid)
                one.filter(facts, ["a", "b", "c"], 0.0)
            await _moved(watches)
        server.stutter = False
        await server.recover()
        last = put_pod(server, "last")
        server.put(RECORDS, "last")
        server.put(NODES, "last")
        await until(watches, lambda: known.pod(last) and "last" in known.records and _same(known, _fresh(server)))
    known.expire(UNSEEN_SECONDS, hold_seconds=600.0)
    assert _unseen(known) == [], seed


async def _step(rng: random.Random, server: FakeApiServer, number: int) -> None:
    name = rng.choice("abc")
    pods = list(server.objects.get(PODS, {}))
    match rng.randrange(12):
        case 0 | 1:
            put_node(server, name, record(name, sequence=number))
        case 2:
            server.delete(rng.choice([NODES, RECORDS]), name)
        case 3:
            server.replace(NODES, name)
        case 4 | 5 if pods:
            put_pod(server, rng.choice(pods), node=name, phase=rng.choice(["Running", "Failed"]))
        case 6 if pods:
            server.delete(PODS, rng.choice(pods))
        case 7:
            server.drop()
        case 8:
            server.forget()
        case 9:
            server.stutter = not server.stutter
        case 10:
            await server.stop()
        case _:
            await server.recover()


def _fresh(server: FakeApiServer) -> Cluster:
    """What one sees who only now begins to look."""
    known = Cluster()
    for name, node in server.objects.get(NODES, {}).items():
        known.see_node(name, node_facts(msgspec.convert(node, NodeObject)))
    for name, found in server.objects.get(RECORDS, {}).items():
        text = msgspec.json.encode(found)
        known.see_record(name, read_record(msgspec.json.decode(text, type=RecordObject)), 0.0)
    for pod in server.objects.get(PODS, {}).values():
        known.see_pod(pod["metadata"]["uid"], pod_facts(msgspec.convert(pod, PodObject)), 0.0)
    return known


def _same(one: Cluster, other: Cluster) -> bool:
    names = {*one.records, *other.records, *"abc"}
    return all(
        one.records.get(name) == other.records.get(name)
        and dict(one.pods_on(name)) == dict(other.pods_on(name))
        and one.on_their_way(name) == other.on_their_way(name)
        for name in names
    )


def _unseen(known: Cluster) -> list[str]:
    """Pods that something is held for although they are bound or gone."""
    pods = {uid: known.pod(uid) for uid in known.holds}
    return [uid for uid, pod in pods.items() if pod is None or pod.node or pod.over]
