import asyncio
import contextlib
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from tests.unit.builders import LogLines
from tests.unit.kube_server import FakeApiServer
from tests.unit.running import running

from railside_agent.event_book import MOST_SERIES, Event, Involved, Saying
from railside_agent.events import EventTeller
from railside_runtime.kube import KubeApi
from railside_runtime.kube_error import KubeError

EVENTS = "/api/v1/namespaces/default/events"
NODE = Involved(kind="Node", name="n1", uid="u-n1")


def _saying(message: str = "mlx5_1 has no active port") -> Saying:
    return Saying(about=NODE, reason="NoActivePort", message=message)


async def test_what_is_said_becomes_an_event(server: FakeApiServer, tmp_path: Path, written: LogLines) -> None:
    """Sentences arrive at the API server as Events, in the order in which they were said."""
    api = KubeApi(server.kubeconfig(tmp_path))
    teller = EventTeller(api, "n1", written.log)
    teller.tell(_saying())
    async with running(teller):
        await server.until_asked(1, "POST")
        teller.tell(_saying("mlx5_2 has no active port"))
        await server.until_asked(2, "POST")
    await api.close()
    told = [one["message"] for one in server.objects[EVENTS].values()]
    assert told == ["mlx5_1 has no active port", "mlx5_2 has no active port"]
    assert written.events == []


class _Server:
    """Takes Events, or answers with the errors in hand, and notes when it was asked for what."""

    def __init__(self, *errors: KubeError | None) -> None:
        self.errors = list(errors)
        self.asked: list[tuple[str, float]] = []
        self.paths: list[str] = []

    async def post(self, path: str, body: object) -> bytes:
        assert isinstance(body, Event)
        return self._answer("POST", path)

    async def patch(self, path: str, body: object, content_type: str) -> bytes:
        assert not isinstance(body, Event)
        assert content_type == "application/merge-patch+json"
        return self._answer("PATCH", path)

    def _answer(self, method: str, path: str) -> bytes:
        self.asked.append((method, asyncio.get_running_loop().time()))
        self.paths.append(path)
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        return b"{}"

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.asked]


async def _for(seconds: float, teller: EventTeller) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await teller.run()


async def _say_each_second(teller: EventTeller, seconds: int) -> None:
    async def say() -> None:
        for _ in range(seconds):
            teller.tell(_saying())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 1)

    saying = asyncio.create_task(say())
    await _for(seconds + 1, teller)
    await saying


@pytest.mark.looptime
async def test_one_sentence_costs_a_request_a_minute(written: LogLines) -> None:
    """What is said each second for ten minutes is one Event, counted up each minute."""
    server = _Server()
    await _say_each_second(EventTeller(server, "n1", written.log), 600)
    assert server.methods == ["POST", *["PATCH"] * 10]
    assert server.paths[0] == EVENTS
    assert {path.rpartition("/")[0] for path in server.paths[1:]} == {EVENTS}


@pytest.mark.looptime
async def test_an_absent_server_is_asked_ever_more_slowly_and_gets_it_in_the_end(written: LogLines) -> None:
    """While the API server is away nothing is lost that there is room for, and it is told once that it is away."""
    server = _Server(*[KubeError(0, "nobody there")] * 12)
    teller = EventTeller(server, "n1", written.log)
    teller.tell(_saying())
    await _for(3600, teller)
    times = [at for _, at in server.asked]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(gaps) == 12
    assert gaps[0] < 2
    assert all(30 <= gap <= 91 for gap in gaps[6:])
    assert [line["detail"] for line in written.lines] == ["nobody there"]
    assert teller.dropped == 0


@pytest.mark.looptime
async def test_saying_never_waits(written: LogLines) -> None:
    """With no server at all, whoever has something to say goes on, and what is too much is dropped."""
    teller = EventTeller(_Server(*[KubeError(0, "nobody there")] * 100), "n1", written.log)
    for number in range(MOST_SERIES * 4):
        teller.tell(_saying(f"sentence {number}"))
    await _for(60, teller)
    assert teller.dropped == MOST_SERIES * 3


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("error", "methods"),
    [
        pytest.param(KubeError(409, "there already"), ["POST", "PATCH"], id="answer-was-lost"),
        pytest.param(KubeError(403, "forbidden"), ["POST", "POST", "PATCH"], id="refused-at-first"),
        pytest.param(KubeError(401, "unauthorized"), ["POST", "POST", "PATCH"], id="credentials"),
        pytest.param(KubeError(429, "too many"), ["POST", "POST", "PATCH"], id="overloaded"),
        pytest.param(KubeError(500, "etcd"), ["POST", "POST", "PATCH"], id="ill"),
    ],
)
async def test_what_becomes_of_a_refused_event(written: LogLines, error: KubeError, methods: list[str]) -> None:
    """What is refused is tried again, and an Event that is there after all is counted up."""
    server = _Server(error)
    teller = EventTeller(server, "n1", written.log)
    teller.tell(_saying())
    # Said again and again, so that each of them has something left to count.
    for second in (70, 130):
        asyncio.get_running_loop().call_later(second, teller.tell, _saying())
    await _for(150, teller)
    assert methods == server.methods[: len(methods)]
    # What may pass by itself is asked again in seconds, what is refused not within the minute.
    assert (server.asked[1][1] < 10) == (error.status in {401, 429, 500})
    assert teller.dropped == 0


@pytest.mark.looptime
async def test_what_is_refused_each_time_is_given_up(written: LogLines) -> None:
    """A missing right costs three questions a sentence and one line in the log."""
    server = _Server(*[KubeError(403, "forbidden")] * 6)
    teller = EventTeller(server, "n1", written.log)
    teller.tell(_saying())
    teller.tell(_saying("mlx5_2 has no active port"))
    await _for(3600, teller)
    assert (server.methods, teller.dropped) == (["POST"] * 6, 2)
    assert [line["detail"] for line in written.lines] == ["forbidden"]


@pytest.mark.looptime
async def test_an_event_that_has_expired_is_made_anew(written: LogLines) -> None:
    """Where the Event to be counted up is gone, a new one is made at once."""
    server = _Server(None, KubeError(404, "not found"))
    teller = EventTeller(server, "n1", written.log, now=lambda: datetime(2026, 11, 30, tzinfo=UTC))
    teller.tell(_saying())
    asyncio.get_running_loop().call_later(30, teller.tell, _saying())
    await _for(120, teller)
    assert server.methods == ["POST", "PATCH", "POST"]
    assert written.events == []
