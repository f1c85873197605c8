"""The extender's verbs over HTTP."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp.test_utils import TestClient, TestServer
from tests.unit.extender.nodes import cluster, pod, pod_json, record

from railside_extender.cluster import Cluster
from railside_extender.decider import Decider, Policy
from railside_extender.server import ExtenderServer
from railside_extender.telemetry import Telemetry
from railside_proto.names import RESOURCE
from railside_runtime.cell import Cell

Client = TestClient[Any, Any]


@asynccontextmanager
async def served(
    known: Cluster, *, problem: str = "", moved: Cell[int] | None = None, telemetry: Telemetry | None = None
) -> AsyncIterator[Client]:
    server = ExtenderServer(
        known,
        Decider(known, Policy(resource=RESOURCE)),
        telemetry or Telemetry(known, ready=lambda: not problem),
        moved=moved or Cell(0),
        not_ready=lambda: problem,
        clock=lambda: 0.0,
    )
    async with TestClient(TestServer(server.application())) as client:
        yield client


async def ask(client: Client, verb: str, name: str = "new", *, gpus: int = 0, hcas: int = 0) -> Any:  # noqa: ANN401 -- JSON
    sent = {"Pod": pod_json(name, gpus=gpus, hcas=hcas), "NodeNames": ["a"]}
    async with client.post(f"/{verb}", json=sent) as answer:
        assert answer.status == 200
        return json.loads(await answer.read())


async def test_a_pod_is_filtered_and_its_nodes_are_scored() -> None:
    """The two calls that each pod costs, below any prefix too."""
    async with served(cluster(record())) as client:
        assert (await ask(client, "filter", gpus=4, hcas=4))["NodeNames"] == ["a"]
        (scored,) = await ask(client, "some/prefix/prioritize", gpus=4, hcas=4)
        assert scored["Host"] == "a"
        assert 0 < scored["Score"] <= 10


async def test_before_the_cluster_was_read_the_scheduler_is_told_to_come_again() -> None:
    """An Error has the scheduler try the pod again later, and evicts nobody (G5)."""
    async with served(cluster(), problem="pods of the cluster were not read yet") as client:
        assert await ask(client, "filter", hcas=1) == {"Error": "pods of the cluster were not read yet"}


async def test_nonsense_is_a_400_with_a_sentence() -> None:
    """The connection and everybody else's requests go on."""
    async with served(cluster(record())) as client:
        async with client.post("/filter", data=b"{") as answer:
            assert (answer.status, "makes no sense" in await answer.text()) == (400, True)
        assert (await ask(client, "filter", hcas=1))["NodeNames"] == ["a"]


async def test_an_answer_waits_a_moment_for_pods_whose_way_is_not_known() -> None:
    """Refused by an offer alone, the pod is looked at again as soon as the watch tells where that pod went."""
    known, moved = cluster(record(hcas=(4, 0), gpus=(4, 0))), Cell(0)
    async with served(known, moved=moved) as client:
        await ask(client, "filter", "p", gpus=4, hcas=4)
        waiting = asyncio.create_task(ask(client, "filter", "q", gpus=4, hcas=4))
        while not waiting.done():
            known.see_pod("uid-p", pod("p", gpus=4, hcas=4, node="elsewhere"), 0.0)
            moved.set(moved.value + 1)
            await asyncio.wait([waiting], timeout=0.001)
        assert waiting.result()["NodeNames"] == ["a"]


async def test_a_pod_of_over_a_megabyte_is_read() -> None:
    """Aiohttp's own limit is 1 MiB, and a pod may be larger (G14, B-SC-46)."""
    async with served(cluster(record())) as client:
        sent = {"Pod": pod_json(hcas=1), "NodeNames": ["a"], "Padding": "x" * (3 << 20)}
        async with client.post("/filter", data=io.BytesIO(json.dumps(sent).encode())) as answer:
            assert json.loads(await answer.read())["NodeNames"] == ["a"]


async def test_a_person_sees_why_a_pod_fits_where() -> None:
    """Each node with its verdict, its numbers and who is on the way there, the best first."""
    known = cluster(record(hcas=(0, 4)), record("b", hcas=(0, 0)))
    known.see_pod("uid-p", pod("p", gpus=1, hcas=1, node="b"), 0.0)
    known.see_pod("uid-new", pod(gpus=4, hcas=4), 0.0)
    async with served(known) as client, client.get("/explain?pod=default/new") as answer:
        found = json.loads(await answer.read())
    assert [(one["node"], one["fit"]) for one in found["nodes"]] == [("a", True), ("b", False)]
    assert found["nodes"][1]["text"].startswith("NotAlignedNow: ")
    assert found["nodes"][1]["onTheirWay"] == ["default/p"]
    free = {(one["resource"], *one["numaNodes"]): one["free"] for one in found["nodes"][0]["numbers"]}
    assert free[RESOURCE, 1] == 4


async def test_a_pod_that_nobody_knows_is_a_404_with_a_sentence() -> None:
    """So is a question without a pod."""
    async with served(cluster(record())) as client:
        for query in ("?pod=default/nobody", ""):
            async with client.get(f"/explain{query}") as answer:
                assert (answer.status, "no such pod" in await answer.text()) == (404, True)


async def test_what_is_answered_is_counted() -> None:
    """Requests by verb, nodes by outcome, and why pods found none: what a scrape shows."""
    known = cluster(record(hcas=(0, 0)))
    telemetry = Telemetry(known, ready=lambda: True)
    async with served(known, telemetry=telemetry) as client:
        await ask(client, "filter", gpus=4, hcas=4)
        async with client.post("/filter", data=b"{") as answer:
            assert answer.status == 400
    told = telemetry.text().decode()
    for line in (
        'railside_extender_request_duration_seconds_count{verb="filter"} 1.0',
        'railside_extender_requests_refused_total{status="400",verb="filter"} 1.0',
        'railside_extender_nodes_total{outcome="not_offered"} 1.0',
        'railside_extender_reasons_total{code="NotAlignedNow"} 1.0',
        "railside_extender_records 1.0",
        "railside_extender_ready 1.0",
    ):
        assert line in told
