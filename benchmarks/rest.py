"""Memory and CPU of an agent that has nothing to do, with and without an API server.

All programs rest at the same time, each with a node of its own. It must not touch them while they rest.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from tests.unit.kube_server import FakeApiServer

from benchmarks.bed import HCAS, Bed, bed
from benchmarks.figures import Figure, Goal, floor, spread
from benchmarks.programs import agent_program, bare_program, module_program
from railside_proto.names import MODE_LABEL

_REST_SECONDS: Final = {"short": 15, "full": 60}
_SETTLE_SECONDS: Final = 3.0
"""Start-up costs CPU that is not that of rest."""

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_NODE: Final = "node-1"
_PODS: Final = 30
_MEMORY_GOALS: Final = (Goal(of="median", most=64), Goal(of="median", most=96))
_BARE: Final = "a Python that has imported grpclib, aiohttp and msgspec"


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Of one process, in MiB."""

    resident: float
    proportional: float
    own: float
    """What would be free if it ended."""


class Rested(msgspec.Struct, frozen=True, kw_only=True):
    """What one process needed at rest."""

    memory: Memory
    cpu_percent: float


async def measure(profile: str) -> list[Figure]:
    """The figures."""
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(FakeApiServer())
        _fill(server)
        alone = await stack.enter_async_context(_agent(server=None))
        told = await stack.enter_async_context(_agent(server=server))
        bare = await stack.enter_async_context(bare_program())
        reader_node = await stack.enter_async_context(bed())
        reader = await stack.enter_async_context(module_program("port_reader", str(reader_node.root)))
        await server.until_asked(2, "GET", watch="1")
        pids = [alone.pid, told.pid, bare.pid, reader.pid]
        of_alone, of_told, of_bare, of_reader = await _rested(pids, _REST_SECONDS[profile])
    return [
        _resident("without an API server", of_alone, of_bare),
        _resident("with an API server", of_told, of_bare),
        *_shares("with an API server", of_told, of_bare),
        _cpu("without an API server", of_alone, of_reader),
        _cpu("with an API server", of_told, of_reader),
    ]


def _resident(where: str, agent: Rested, bare: Rested) -> Figure:
    return Figure(
        group="At rest",
        what=f"resident memory (RSS), {where}",
        unit="MiB",
        spread=spread([agent.memory.resident]),
        floor=floor(_BARE, [bare.memory.resident], [agent.memory.resident]),
        goals=_MEMORY_GOALS,
        note="shared pages of libraries counted whole",
    )


def _shares(where: str, agent: Rested, bare: Rested) -> list[Figure]:
    return [
        Figure(
            group="At rest",
            what=f"{name}, {where}",
            unit="MiB",
            spread=spread([getattr(agent.memory, field)]),
            floor=floor(_BARE, [getattr(bare.memory, field)], [getattr(agent.memory, field)]),
        )
        for name, field in (("proportional memory (PSS)", "proportional"), ("memory of its own (USS)", "own"))
    ]


def _cpu(where: str, agent: Rested, reader: Rested) -> Figure:
    return Figure(
        group="At rest",
        what=f"CPU of one core, {where}",
        unit="%",
        spread=spread([agent.cpu_percent]),
        floor=floor(
            "a loop that reads the same port files each second", [reader.cpu_percent], [agent.cpu_percent]
        ),
        goals=(Goal(of="median", most=0.5),),
        note=f"{HCAS} HCAs and a bond, asked each second; by the kernel's ticks of {1000 // _TICKS} ms",
    )


@contextlib.asynccontextmanager
async def _agent(server: FakeApiServer | None) -> AsyncIterator[asyncio.subprocess.Process]:
    async with bed() as node:
        kube = {} if server is None else {"node_name": _NODE, "kubeconfig": server.kubeconfig(node.root)}
        async with agent_program(node.set_to(**kube)) as program:
            await _settled(node)
            yield program


async def _settled(node: Bed) -> None:
    await node.listed()


def _fill(server: FakeApiServer) -> None:
    server.put("/api/v1/nodes", _NODE, metadata={"labels": {MODE_LABEL: "ib-shared"}})
    for number in range(_PODS):
        server.put(
            "/api/v1/pods",
            f"pod-{number}",
            spec={
                "nodeName": _NODE,
                "containers": [{"name": "main", "image": "x" * 80, "env": [{"name": "A"}] * 20}],
            },
            status={"phase": "Running"},
        )


async def _rested(pids: Sequence[int], seconds: float) -> list[Rested]:
    await asyncio.sleep(_SETTLE_SECONDS)
    before = [cpu_seconds(pid) for pid in pids]
    await asyncio.sleep(seconds)
    return [
        Rested(memory=memory(pid), cpu_percent=(cpu_seconds(pid) - used) / seconds * 100)
        for pid, used in zip(pids, before, strict=True)
    ]


def cpu_seconds(pid: int) -> float:
    """What a process and its threads have used so far."""
    # The name may hold blanks and brackets; behind the last bracket the third field comes first.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory(pid: int) -> Memory:
    """What a process has by now."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()[1:]
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return Memory(
        resident=kilobytes["Rss"] / 1024,
        proportional=kilobytes["Pss"] / 1024,
        own=(kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]) / 1024,
    )
