import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Never

import aiohttp
import pytest
from tests.unit.running import free_port

from railside_runtime.probes import MOST_CONNECTIONS, RETRY_SECONDS, NotReady, ProbeServer


class _Program:
    """Something to probe."""

    def __init__(self, *missing: str) -> None:
        self.missing = missing

    def not_ready(self) -> NotReady:
        return self.missing

    async def status(self) -> bytes:
        return b'{"fine": true}'


@asynccontextmanager
async def _served(program: _Program) -> AsyncIterator[aiohttp.ClientSession]:
    """A session that waits until the server listens; the server ends with it."""
    port = free_port()
    serving = asyncio.create_task(_server(program, port, pytest.fail).run())
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        await _until_it_listens(session, serving)
        yield session
    await _ended(serving)


def _server(program: _Program, port: int, complain: Callable[[str], None]) -> ProbeServer:
    return ProbeServer("127.0.0.1", port, not_ready=program.not_ready, status=program.status, complain=complain)


async def _until_it_listens(session: aiohttp.ClientSession, serving: "asyncio.Task[Never]") -> None:
    while not await _listens(session):
        await asyncio.wait([serving], timeout=0.01)


async def _ended(serving: "asyncio.Task[Never]") -> None:
    serving.cancel()
    await asyncio.wait([serving])
    assert serving.cancelled()


async def _listens(session: aiohttp.ClientSession) -> bool:
    try:
        async with session.get("/livez"):
            return True
    except aiohttp.ClientConnectionError:
        return False


@pytest.mark.parametrize(
    ("missing", "path", "expected"),
    [
        pytest.param((), "/", (200, "/livez\n/readyz\n/status\n"), id="what-there-is"),
        pytest.param((), "/livez", (200, "ok\n"), id="alive"),
        pytest.param(("not yet",), "/livez", (200, "ok\n"), id="alive-though-not-ready"),
        pytest.param((), "/readyz", (200, "ok\n"), id="ready"),
        pytest.param(("no list", "no kubelet"), "/readyz", (503, "no list\nno kubelet\n"), id="not-ready"),
        pytest.param((), "/status", (200, '{"fine": true}'), id="status"),
        pytest.param((), "/nothing", (404, "404: Not Found"), id="unknown-path"),
    ],
)
async def test_probes(missing: tuple[str, ...], path: str, expected: tuple[int, str]) -> None:
    """Alive is always alive; ready is told with every sentence of what is missing."""
    async with _served(_Program(*missing)) as session, session.get(path) as answer:
        assert expected == (answer.status, await answer.text())


async def test_status_is_json() -> None:
    """/status says that it is JSON."""
    async with _served(_Program()) as session, session.get("/status") as answer:
        assert answer.content_type == "application/json"


@pytest.mark.looptime
async def test_a_taken_port_is_one_sentence_and_waited_for() -> None:
    """A port that another program has is told once, with the settings that mend it, and taken when it is free."""
    program = _Program()
    told: list[str] = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        asyncio.get_running_loop().call_later(3 * RETRY_SECONDS, taken.close)
        serving = asyncio.create_task(_server(program, port, told.append).run())
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            await _until_it_listens(session, serving)
    await _ended(serving)
    sentence = f"cannot listen on 127.0.0.1:{port} (Address already in use); set another listenHost or listenPort"
    assert told == [sentence]


async def test_no_more_connections_are_taken_than_the_program_can_spare() -> None:
    """Whoever opens many connections is hung up on, and those that are open are served on."""
    async with _served(_Program()) as session:
        port = session._base_url.port if session._base_url else None  # noqa: SLF001 -- it has no other name
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_CONNECTIONS + 8)]
        reader, _ = opened[-1]
        assert await reader.read() == b""
        async with session.get("/livez") as answer:
            assert answer.status == 200
        for _, writer in opened:
            writer.close()
