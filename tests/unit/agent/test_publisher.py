import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.builders import LogLines
from tests.unit.kube_server import FakeApiServer
from tests.unit.running import running

from railside_agent.publication import Standing
from railside_agent.publisher import ASSERT_SECONDS, LEAST_PAUSE_SECONDS, Publisher
from railside_proto.names import RECORDS
from railside_proto.record import KubeletFacts, Record
from railside_runtime.cell import Cell
from railside_runtime.kube import KubeApi
from railside_runtime.kube_error import KubeError

_OBJECT, _STATUS = f"{RECORDS}/n1", f"{RECORDS}/n1/status"
_AWAY = KubeError(0, "the API server cannot be reached")


def _record(detail: str = "", **facts: object) -> Record:
    """A record that says ``detail``."""
    plain = Record(node_uid="u1", boot_id="b1", version="1", kubelet=KubeletFacts(detail=detail))
    return msgspec.structs.replace(plain, **facts)


LONG_SECONDS = 3600.0
"""Of virtual time: nothing that is to happen takes so long."""


class _Cluster:
    """Takes what is applied, and notes when; ``error`` is its answer to everything while it is set."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.knows = True
        self.error: KubeError | None = None
        self.asked: list[tuple[str, float]] = []
        self.count = Cell(0)

    async def patch(self, path: str, body: object, content_type: str, query: Mapping[str, str]) -> bytes:
        assert content_type == "application/apply-patch+yaml"
        assert query == {"fieldManager": "railside-agent", "force": "true"}
        self.asked.append((path, asyncio.get_running_loop().time()))
        self.count.set(len(self.asked))
        if self.error is not None:
            raise self.error
        if not self.knows or (path == _STATUS and _OBJECT not in self.objects):
            raise KubeError(404, "the server could not find the requested resource")
        kept = self.objects.setdefault(_OBJECT, {})
        # A copy, as it would be over the wire.
        applied = json.loads(msgspec.json.encode(body))
        kept.update(applied if path == _OBJECT else {"status": applied["status"]})
        return msgspec.json.encode(kept)

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.objects[_OBJECT]["status"]
        return found

    @property
    def said(self) -> str:
        """What the record says."""
        return str(self.status["kubelet"]["detail"])

    def forget(self) -> None:
        """Somebody deletes the definition, and all records with it."""
        self.knows = False
        self.objects.clear()


class _Desk:
    """A publisher, and what it is to publish."""

    def __init__(self, written: LogLines, api: Any = None, *, needed: bool = False) -> None:  # noqa: ANN401 -- any API
        self.cluster = _Cluster()
        self.record: Cell[Record | None] = Cell(_record("first"))
        self.publisher = Publisher(
            api or self.cluster,
            "n1",
            written.log,
            needed=needed,
            report=lambda: self.record.value,
            sources=lambda: [(self.record, self.record.value)],
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with running(self.publisher):
            yield

    async def stands(self, standing: Standing = Standing.WRITTEN) -> None:
        async with asyncio.timeout(LONG_SECONDS):
            await self.publisher.publication.until(lambda now: now.standing is standing)

    async def says(self, detail: str) -> None:
        """Return when the record says so. Raises TimeoutError after what is long on the loop's clock."""
        async with asyncio.timeout(LONG_SECONDS):
            while _OBJECT not in self.cluster.objects or self.cluster.said != detail:
                await self.cluster.count.newer(self.cluster.count.value)
                await _turns()

    def tell(self, detail: str) -> None:
        self.record.set(_record(detail))


async def _turns() -> None:
    """Let an answer be taken in."""
    for _ in range(5):
        await _pass(0)


async def _pass(seconds: float) -> None:
    """Let time pass."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()


@pytest.fixture
def desk(written: LogLines) -> _Desk:
    return _Desk(written)


def _gaps(cluster: _Cluster) -> Iterator[float]:
    return (later - earlier for (_, earlier), (_, later) in pairwise(cluster.asked))


@pytest.mark.looptime
async def test_a_record_is_made_and_filled(desk: _Desk, written: LogLines) -> None:
    """First the object, owned by its Node, then its status; and then nothing while nothing changes."""
    async with desk.running():
        await desk.stands()
        await _pass(ASSERT_SECONDS - 1)
    assert [path for path, _ in desk.cluster.asked] == [_OBJECT, _STATUS]
    made = desk.cluster.objects[_OBJECT]
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u1"
    assert (made["status"]["nodeUid"], made["status"]["sequence"], desk.cluster.said) == ("u1", 1, "first")
    assert written.events == ["the node's record is written"]


@pytest.mark.looptime
async def test_what_changes_is_written_at_once(desk: _Desk) -> None:
    """A change that comes alone waits for nothing, costs one request, and is numbered."""
    async with desk.running():
        await desk.stands()
        await _pass(10)
        desk.tell("second")
        began = asyncio.get_running_loop().time()
        await desk.says("second")
        assert asyncio.get_running_loop().time() - began < LEAST_PAUSE_SECONDS
    assert (desk.cluster.status["sequence"], len(desk.cluster.asked)) == (2, 3)


@pytest.mark.looptime
async def test_a_storm_of_changes_is_written_four_times_a_second(desk: _Desk) -> None:
    """Of many changes in one second the API server hears four or so, and the last is among them."""
    async with desk.running():
        await desk.stands()
        await _pass(10)
        before = len(desk.cluster.asked)
        for number in range(100):
            desk.tell(f"change {number}")
            await _pass(0.01)
        await desk.says("change 99")
    assert len(desk.cluster.asked) - before <= 1 / LEAST_PAUSE_SECONDS + 1
    assert min(list(_gaps(desk.cluster))[before:]) >= LEAST_PAUSE_SECONDS


@pytest.mark.looptime
async def test_nothing_is_written_before_anything_is_known(desk: _Desk) -> None:
    """An agent that has not looked yet leaves the record of the one before as it is."""
    desk.record.set(None)
    async with desk.running():
        await _pass(3600)
        assert desk.publisher.publication.value.standing is Standing.NOT_TRIED
        desk.tell("known")
        await desk.says("known")
    assert len(desk.cluster.asked) == 2


@pytest.mark.looptime
@pytest.mark.parametrize(("boot", "sequence"), [("b1", 6), ("b0", 1)], ids=["the-same-boot", "another-boot"])
async def test_an_agent_that_starts_anew_counts_on(desk: _Desk, boot: str, sequence: int) -> None:
    """In one boot of the node the sequence grows from agent to agent, so that readers can tell old from new."""
    desk.cluster.objects[_OBJECT] = {"status": {"bootId": boot, "sequence": 5}}
    async with desk.running():
        await desk.stands()
    assert (desk.cluster.status["sequence"], desk.cluster.status["bootId"]) == (sequence, "b1")


@pytest.mark.looptime
async def test_an_outage_is_waited_out(desk: _Desk, written: LogLines) -> None:
    """Hours without an API server cost a question each half minute, one line in the log, and then one record."""
    async with desk.running():
        await desk.stands()
        desk.cluster.error = _AWAY
        desk.tell("second")
        await desk.stands(Standing.AWAY)
        await _pass(6 * 3600)
        asked = len(desk.cluster.asked)
        desk.tell("third")
        desk.cluster.error = None
        await desk.says("third")
        assert len(desk.cluster.asked) == asked + 1
        await desk.stands()
    gaps = list(_gaps(desk.cluster))[2:]
    assert gaps[0] <= 1.5
    assert all(15 <= gap <= 46 for gap in gaps[8:])
    assert written.events == [
        "the node's record is written",
        "the node's record cannot be written",
        "the node's record is written",
    ]


@pytest.mark.looptime
async def test_a_cluster_that_knows_no_records_is_told_of_once(desk: _Desk, written: LogLines) -> None:
    """Without the definition the agent goes on asking, seldom, and publishes as soon as it is there."""
    desk.cluster.forget()
    async with desk.running():
        await desk.stands(Standing.NO_KIND)
        await _pass(3600)
        desk.cluster.knows = True
        await desk.stands()
    assert len(desk.cluster.asked) < 3600 / 15
    assert written.events == ["the node's record cannot be written", "the node's record is written"]
    assert "knows no RDMANode" in written.lines[0]["detail"]


@pytest.mark.looptime
async def test_a_definition_that_is_made_anew_gets_the_record_back(desk: _Desk) -> None:
    """Records that went with their definition are made anew, and their numbers go on."""
    async with desk.running():
        await desk.stands()
        desk.cluster.forget()
        desk.tell("second")
        await desk.stands(Standing.NO_KIND)
        desk.cluster.knows = True
        await desk.stands()
    assert (desk.cluster.said, desk.cluster.status["sequence"]) == ("second", 2)
    assert desk.cluster.objects[_OBJECT]["metadata"]["name"] == "n1"


@pytest.mark.looptime
@pytest.mark.parametrize("gone", [True, False], ids=["gone", "away"])
async def test_what_is_true_again_is_written_all_the_same(desk: _Desk, *, gone: bool) -> None:
    """A record that is as it was before a try that failed does not stand: it may be gone, or be the other one."""
    async with desk.running():
        await desk.stands()
        if gone:
            desk.cluster.forget()
        else:
            desk.cluster.error = _AWAY
        desk.tell("second")
        await desk.stands(Standing.NO_KIND if gone else Standing.AWAY)
        desk.tell("first")
        desk.cluster.knows, desk.cluster.error = True, None
        await desk.stands()
    assert (desk.cluster.said, desk.cluster.status["sequence"]) == ("first", 3)


@pytest.mark.looptime
async def test_a_record_that_somebody_deletes_comes_back(desk: _Desk) -> None:
    """With the next change, or by itself after some minutes: then as it was, with the number that it had."""
    async with desk.running():
        await desk.stands()
        desk.cluster.objects.clear()
        desk.tell("second")
        await desk.says("second")
        desk.cluster.objects.clear()
        await _pass(2 * ASSERT_SECONDS)
        assert (desk.cluster.said, desk.cluster.status["sequence"]) == ("second", 2)


@pytest.mark.looptime
async def test_what_stands_is_confirmed_now_and_then(desk: _Desk) -> None:
    """Saying the same again changes nothing at the API server, and mends what somebody has changed there."""
    async with desk.running():
        await desk.stands()
        await _pass(24 * 3600)
    confirmed = [path for path, _ in desk.cluster.asked[2:]]
    assert set(confirmed) == {_STATUS}
    assert 24 * 3600 / (1.6 * ASSERT_SECONDS) < len(confirmed) < 24 * 3600 / ASSERT_SECONDS
    assert desk.cluster.status["sequence"] == 1


@pytest.mark.looptime
async def test_a_node_that_is_made_anew_owns_the_record(desk: _Desk) -> None:
    """Under the same name it is another Node: the record goes with this one, and says so."""
    async with desk.running():
        await desk.stands()
        desk.record.set(_record("second", node_uid="u2"))
        await desk.says("second")
    (owner,) = desk.cluster.objects[_OBJECT]["metadata"]["ownerReferences"]
    assert (owner["uid"], desk.cluster.status["nodeUid"]) == ("u2", "u2")
    assert [path for path, _ in desk.cluster.asked] == [_OBJECT, _STATUS, _OBJECT, _STATUS]


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("status", "standing"),
    [
        (0, Standing.AWAY),
        (401, Standing.AWAY),
        (409, Standing.AWAY),
        (429, Standing.AWAY),
        (500, Standing.AWAY),
        (403, Standing.REFUSED),
        (422, Standing.REFUSED),
    ],
)
async def test_what_a_failure_means(desk: _Desk, status: int, standing: Standing) -> None:
    """Whatever the answer is the record is tried again; a plain no is told apart from what passes by itself."""
    desk.cluster.error = KubeError(status, "no, says the server")
    async with desk.running():
        await desk.stands(standing)
        assert desk.publisher.publication.value.problem == "no, says the server"
        desk.cluster.error = None
        await desk.stands()
        assert desk.publisher.publication.value.problem is None


@pytest.mark.looptime
async def test_changes_while_the_server_is_away_ask_no_more_often(desk: _Desk) -> None:
    """A node that changes all the time does not storm a server that is on its knees."""
    desk.cluster.error = KubeError(500, "etcd is slow")
    async with desk.running():
        for number in range(720):
            desk.tell(f"change {number}")
            await _pass(5)
    assert len(desk.cluster.asked) < 3600 / 15


async def test_the_api_server_has_what_was_applied(
    server: FakeApiServer, tmp_path: Path, written: LogLines
) -> None:
    """Over HTTP the object and its status arrive as they are, a null nowhere."""
    api = KubeApi(server.kubeconfig(tmp_path))
    desk = _Desk(written, api)
    async with desk.running(), asyncio.timeout(10):
        await desk.stands()
    await api.close()
    made = server.objects[RECORDS]["n1"]
    assert (made["kind"], made["metadata"]["ownerReferences"][0]["kind"]) == ("RDMANode", "Node")
    assert made["status"] == {
        "nodeUid": "u1",
        "bootId": "b1",
        "version": "1",
        "sequence": 1,
        "kubelet": {"detail": "first"},
    }
