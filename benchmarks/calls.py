"""The kubelet's three calls about a container, by a client that calls one after the other.

Pods come and go on a full node: each takes a seat of another, is dealt it, stands in the checkpoint, and starts.
Before and behind each start the agent is left in peace for a moment: pods come seconds apart, and the kubelet
makes volumes and sandbox before it starts a container (real kubelet 1.34 with containerd, 8 pods: 459 to 861 ms
between Allocate and PreStartContainer). It must not call at once what the kubelet calls one after the other.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

import msgspec

from benchmarks import replaying
from benchmarks.bed import HCAS, Bed, bed
from benchmarks.figures import Figure, Goal, floor, spread
from benchmarks.files_alone import FilesAlone
from benchmarks.pods import Node
from benchmarks.programs import agent_program, module_program
from benchmarks.turns import taking_turns, timed
from railside_agent.flight_ring import recorded
from railside_proto.names import RECORDER_DIR
from railside_sim.plugin_client import PluginClient

_PODS: Final = {"short": 200, "full": 1000}
_CHOICES: Final = {"short": 200, "full": 1000}
_FULL_NODE_SHARES: Final = 16
_MOST_SHARES: Final = 128
_CHECKPOINT_BYTES: Final = 100_000
_PEACE_SECONDS: Final = 0.02

_EMPTY_CALL: Final = "an empty unary call of grpclib to a plugin that does nothing, on a unix socket"
_FILES: Final = (
    "the same files alone (checkpoint read, folder, nodes and three texts made, link renamed) and an empty call"
)
_START_NOTE: Final = "with the client's part"
_AT_ONCE_NOTE: Final = (
    "as no kubelet does it: the agent reads the new checkpoint, and lists anew, at the same time"
)


class Times(msgspec.Struct):
    """Samples of pods on one node, in milliseconds."""

    dealt: list[float]
    dealt_floor: list[float]
    started: list[float]
    started_floor: list[float]
    checkpoint_bytes: int = 0


class Clients(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's plugin and the one that does nothing, both in processes of their own."""

    node: Bed
    agent: PluginClient
    nothing: PluginClient


async def measure(profile: str) -> list[Figure]:
    """The figures."""
    async with _clients(shares=1) as clients:
        few = await _pods(clients, _PODS[profile], bytes_at_least=0)
        # Behind its back: the recorder writes in a thread.
        recording = await asyncio.to_thread(recorded, clients.node.root / RECORDER_DIR)
    async with _clients(shares=1) as clients:
        at_once = await _pods(clients, _PODS[profile], bytes_at_least=0, peace_seconds=0)
    async with _clients(shares=_FULL_NODE_SHARES) as clients:
        many = await _pods(clients, _PODS[profile], bytes_at_least=_CHECKPOINT_BYTES)
    async with _clients(shares=_MOST_SHARES) as clients:
        choices, echoes = await _choices(clients, _CHOICES[profile])
    return [
        _allocate(few, f"{HCAS} pods on {HCAS} HCAs"),
        _choose(choices, echoes),
        _start(few, f"{HCAS} containers bound"),
        _start(
            many, f"{HCAS * _FULL_NODE_SHARES} containers bound, {many.checkpoint_bytes // 1000} kB of checkpoint"
        ),
        _start(
            at_once,
            f"{HCAS} containers bound, just behind the checkpoint's writing",
            goals=(),
            note=_AT_ONCE_NOTE,
        ),
        await asyncio.to_thread(replaying.figure, recording),
    ]


def _allocate(times: Times, where: str) -> Figure:
    return Figure(
        group="Calls of the kubelet",
        what=f"Allocate, {where}",
        unit="ms",
        spread=spread(times.dealt),
        floor=floor(_EMPTY_CALL, times.dealt_floor, times.dealt),
        goals=(Goal(of="p99", most=2),),
        note="with the client's part; it takes the seat's last container away and makes the new one's folder",
    )


def _choose(choices: list[float], echoes: list[float]) -> Figure:
    return Figure(
        group="Calls of the kubelet",
        what=f"GetPreferredAllocation, 1 to {HCAS} of {HCAS * _MOST_SHARES} seats",
        unit="ms",
        spread=spread(choices),
        floor=floor("the same call to a plugin that answers with the first seats", echoes, choices),
        goals=(Goal(of="p99", most=3),),
        note="with the client's part, which packs as many names",
    )


def _start(
    times: Times,
    where: str,
    *,
    goals: tuple[Goal, ...] = (Goal(of="median", most=2), Goal(of="p99", most=25)),
    note: str = _START_NOTE,
) -> Figure:
    return Figure(
        group="Calls of the kubelet",
        what=f"PreStartContainer, {where}",
        unit="ms",
        spread=spread(times.started),
        floor=floor(_FILES, times.started_floor, times.started),
        goals=goals,
        note=note,
    )


@contextlib.asynccontextmanager
async def _clients(*, shares: int) -> AsyncIterator[Clients]:
    async with bed() as node:
        mode = "ib-shared-multi" if shares > 1 else "ib-shared"
        settings = node.set_to(mode=mode, shares_per_hca=shares)
        echo = node.root / "echo.sock"
        async with agent_program(settings), module_program("echo", str(echo)):
            await node.listed(HCAS * shares)
            clients = Clients(node=node, agent=PluginClient(node.plugin_socket()), nothing=PluginClient(echo))
            await clients.agent.connect()
            await clients.nothing.connect()
            try:
                yield clients
            finally:
                clients.agent.close()
                clients.nothing.close()


async def _pods(
    clients: Clients, count: int, *, bytes_at_least: int, peace_seconds: float = _PEACE_SECONDS
) -> Times:
    """``count`` pods on a node that is full already; each starts ``peace_seconds`` behind its dealing."""
    seats = [one.id for one in clients.node.kubelet.listed()]
    pods = Node(seats, clients.node.checkpoint, bytes_at_least=bytes_at_least)
    files = FilesAlone(clients.node.root / "alone", clients.node.checkpoint)
    coming = pods.next_pods()
    for _ in seats:
        await _pod(clients, next(coming), pods)
    times = Times([], [], [], [])
    for number in range(count):
        seat = next(coming)
        swap = number % 2 == 1
        dealt, dealt_floor = await _both(_deal(clients.agent, seat), clients.nothing.connect, swap=swap)
        times.checkpoint_bytes = await asyncio.to_thread(pods.write)
        await asyncio.sleep(peace_seconds)
        started, started_floor = await _both(_begin(clients.agent, seat), _least(clients, files), swap=swap)
        times.dealt.append(dealt)
        times.dealt_floor.append(dealt_floor)
        times.started.append(started)
        times.started_floor.append(started_floor)
        await asyncio.sleep(_PEACE_SECONDS)
    return times


async def _pod(clients: Clients, seat: str, pods: Node) -> None:
    await clients.agent.allocate([seat])
    await asyncio.to_thread(pods.write)
    await clients.agent.pre_start([seat])


async def _choices(clients: Clients, count: int) -> tuple[list[float], list[float]]:
    every = sorted(one.id for one in clients.node.kubelet.listed())
    sizes = [number % HCAS + 1 for number in range(count)]

    def asking(client: PluginClient, sizes: Sequence[int]) -> Callable[[], Awaitable[float]]:
        left = iter(sizes)

        async def ask() -> float:
            size = next(left)
            return await timed(lambda: client.preferred(every, (), size))

        return ask

    return await taking_turns(asking(clients.agent, sizes), asking(clients.nothing, sizes), count)


Call = Callable[[], Awaitable[object]]


def _deal(client: PluginClient, seat: str) -> Call:
    return lambda: client.allocate([seat])


def _begin(client: PluginClient, seat: str) -> Call:
    return lambda: client.pre_start([seat])


def _least(clients: Clients, files: FilesAlone) -> Call:
    """What no start could do without."""

    async def call() -> None:
        await clients.nothing.connect()
        await files.run()

    return call


async def _both(one: Call, least: Call, *, swap: bool) -> tuple[float, float]:
    """How long both take, one behind the other, in turns the other way round."""
    if swap:
        of_least = await timed(least)
        return await timed(one), of_least
    of_one = await timed(one)
    return of_one, await timed(least)
