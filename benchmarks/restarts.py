"""From the kubelet's new socket to the complete list, over many restarts of the kubelet.

The clock starts at the time that the socket's file bears. It must not restart the agent in between.
"""

import asyncio
import itertools
import time
from pathlib import Path
from typing import Final

from benchmarks.bed import HCAS, Bed, bed
from benchmarks.figures import Figure, Goal, floor, spread
from benchmarks.programs import agent_program, module_program
from benchmarks.turns import timed
from railside_proto.names import KUBELET_SOCKET
from railside_sim.plugin_client import PluginClient

_RESTARTS: Final = {"short": 30, "full": 100}
_AWAY_SECONDS: Final = (0.0, 0.3, 1.0, 2.5)
"""How long a kubelet is away: also longer than the agent waits before it takes a silent one for gone."""

_LOST_SECONDS: Final = 10.0
_NANOSECONDS: Final = 1e9


async def measure(profile: str) -> list[Figure]:
    """The figures."""
    took: list[float] = []
    dials: list[float] = []
    lost = 0
    async with bed() as node:
        echo = node.root / "echo.sock"
        async with agent_program(node.set_to()), module_program("echo", str(echo)):
            await node.listed()
            for away in itertools.islice(itertools.cycle(_AWAY_SECONDS), _RESTARTS[profile]):
                try:
                    took.append(await _restart(node, away))
                except TimeoutError:
                    lost += 1
                    continue
                dials.append(await timed(lambda: _two_dials(echo)))
    return [_latency(took, dials), _loss(lost, _RESTARTS[profile])]


def _latency(took: list[float], dials: list[float]) -> Figure:
    return Figure(
        group="Kubelet restarts",
        what="kubelet's socket made to complete list",
        unit="ms",
        spread=spread(took),
        floor=floor(
            "two new connections with one empty call each: to register, and to be dialled back", dials, took
        ),
        goals=(Goal(of="median", most=100), Goal(of="max", most=500)),
        note="by the time of the socket's file, which is early by up to one tick of the kernel's clock; the"
        f" kubelet was away for {', '.join(f'{one:g}' for one in _AWAY_SECONDS)} s in turn",
    )


def _loss(lost: int, restarts: int) -> Figure:
    return Figure(
        group="Kubelet restarts",
        what=f"registrations lost in {restarts} restarts",
        unit="",
        spread=spread([lost]),
        goals=(Goal(of="max", most=0),),
        note=f"no complete list within {_LOST_SECONDS:g} s",
    )


async def _restart(node: Bed, away: float) -> float:
    await node.kubelet.stop()
    await asyncio.sleep(away)
    await node.kubelet.start()
    await node.kubelet.until(lambda: node.kubelet.status_of().allocatable == HCAS, timeout_s=_LOST_SECONDS)
    now = time.time_ns()
    made = (await asyncio.to_thread((node.sockets / KUBELET_SOCKET).lstat)).st_mtime_ns
    return (now - made) / _NANOSECONDS * 1000


async def _two_dials(socket: Path) -> None:
    for _ in range(2):
        client = PluginClient(socket)
        await client.connect()
        client.close()
