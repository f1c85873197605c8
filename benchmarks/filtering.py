"""What a filter call costs, with real verdicts, beside an echo of the names and beside a server in Go.

The scheduler makes two such calls for each pod, one pod at a time. It must not decide what is a good answer.
"""

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import aiohttp

from benchmarks.bed import free_port
from benchmarks.figures import Figure, Floor, Goal, abba, floor, spread
from benchmarks.made_up_cluster import node_name, pod_json
from benchmarks.programs import REPOSITORY, BenchmarkError, module_program
from benchmarks.turns import timed

_CALLS: Final = {"short": 200, "full": 1000}
_UPDATES: Final = 200
"""Records and pods that change each second, where anything does."""

_ECHO: Final = "an aiohttp server that decodes the request and returns every name, in the same process"
_GO: Final = "a Go server (net/http, encoding/json) that fails every other name with a reason, and decides nothing"
_NOTE: Final = "half of the nodes unfit with a reason; over HTTP, the client's part included"


async def measure(profile: str) -> list[Figure]:
    """The figures; those beside Go only where there is a Go compiler."""
    calls = _CALLS[profile]
    return [
        await _beside_echo(500, calls, most=1.3),
        await _beside_echo(5000, calls, most=2.5),
        await _under_churn(5000, calls),
        *await _beside_go(5000, calls),
    ]


async def _beside_echo(nodes: int, calls: int, *, most: float) -> Figure:
    ours, echoes = await _measured(nodes, calls, updates=0)
    return _figure(f"filter of {nodes} names", ours, floor(_ECHO, echoes, ours), Goal(of="ratio", most=most))


async def _under_churn(nodes: int, calls: int) -> Figure:
    ours, echoes = await _measured(nodes, calls, updates=_UPDATES)
    return _figure(
        f"filter of {nodes} names while {_UPDATES} records and pods change each second",
        ours,
        floor(_ECHO, echoes, ours),
        Goal(of="p99", most=3 * spread(echoes).p99),
        note=f"{_NOTE}; the goal is three times the floor's p99",
    )


async def _beside_go(nodes: int, calls: int) -> list[Figure]:
    program = await _built()
    if program is None:
        return []
    port = free_port()
    async with _served(nodes, 0) as (session, url), _go_server(program, port):
        ours, floors = await _in_turns(session, f"{url}/filter", f"http://127.0.0.1:{port}/filter", nodes, calls)
    beside = floor(_GO, floors, ours)
    return [_figure(f"filter of {nodes} names, beside Go", ours, beside, Goal(of="ratio", most=0.35))]


def _figure(what: str, ours: list[float], beside: Floor, goal: Goal, note: str = _NOTE) -> Figure:
    return Figure(
        group="Filter calls", what=what, unit="ms", spread=spread(ours), floor=beside, goals=(goal,), note=note
    )


async def _measured(nodes: int, calls: int, *, updates: int) -> tuple[list[float], list[float]]:
    async with _served(nodes, updates) as (session, url):
        return await _in_turns(session, f"{url}/filter", f"{url}/echo", nodes, calls)


async def _in_turns(
    session: aiohttp.ClientSession, ours: str, other: str, nodes: int, calls: int
) -> tuple[list[float], list[float]]:
    times: tuple[list[float], list[float]] = ([], [])
    bodies = [_body(nodes, number) for number in range(8)]
    for url in (ours, other):
        await _call(session, url, bodies[0])
    for number, is_other in enumerate(abba(calls)):
        body = bodies[number // 2 % len(bodies)]
        url = other if is_other else ours
        times[is_other].append(await timed(lambda url=url, body=body: _call(session, url, body)))  # type: ignore[misc]
    return times


async def _call(session: aiohttp.ClientSession, url: str, body: bytes) -> None:
    async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
        if answer.status != 200 or b'"NodeNames":[' not in await answer.read():  # noqa: PLR2004 -- OK
            raise BenchmarkError(f"{url} gave no list of names")


def _body(nodes: int, number: int) -> bytes:
    names = [node_name(one) for one in range(nodes)]
    return json.dumps({"Pod": pod_json(f"pod-{number}", count=4), "Nodes": None, "NodeNames": names}).encode()


@contextlib.asynccontextmanager
async def _served(nodes: int, updates: int) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    port = free_port()
    async with (
        module_program("filter_server", str(port), str(nodes), str(updates)),
        aiohttp.ClientSession() as session,
    ):
        yield session, f"http://127.0.0.1:{port}"


async def _built() -> Path | None:
    """The Go server, compiled; None without a compiler."""
    go = shutil.which("go")
    if go is None:
        return None
    program = REPOSITORY / "build/benchmarks/go_floor"
    source = REPOSITORY / "benchmarks/go_floor/main.go"
    compiling = await asyncio.create_subprocess_exec(go, "build", "-o", str(program), str(source))
    if await compiling.wait():
        raise BenchmarkError(f"{source} cannot be compiled")
    return program


@contextlib.asynccontextmanager
async def _go_server(program: Path, port: int) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(program, str(port), stdout=asyncio.subprocess.PIPE)
    try:
        await _until_it_listens(port)
        yield
    finally:
        process.terminate()
        await process.wait()


async def _until_it_listens(port: int) -> None:
    for _ in range(100):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
    raise BenchmarkError("the Go server does not listen")
