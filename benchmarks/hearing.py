"""From a change of the hardware to the changed list at the kubelet.

The agent hears uevents from a socket pair: nothing may send real ones on a machine that others use. It must not
reach into the agent.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from benchmarks.bed import HCAS, Bed, bed
from benchmarks.figures import Figure, Goal, floor, spread
from benchmarks.programs import agent_that_hears
from benchmarks.turns import timed

_CHANGES: Final = {"short": 20, "full": 60}
_POLLED: Final = {"short": 8, "full": 30}
_DEBOUNCE_SECONDS: Final = 0.05
_RECOVERY_SECONDS: Final = 1.0
"""The shortest that can be set; an HCA that was away must have been well for so long."""

_NAME: Final = "mlx5_9"
_MESSAGE: Final = "{0}@/devices/x\0ACTION={0}\0DEVPATH=/devices/x\0SUBSYSTEM=infiniband\0"
_FLOOR: Final = "a sleep of the debounce, 50 ms, in an idle event loop"


async def measure(profile: str) -> list[Figure]:
    """The figures."""
    gone: list[float] = []
    sleeps: list[float] = []
    polled: list[float] = []
    async with _heard() as (node, kernel):
        device = node.root / "sys/class/infiniband" / _NAME
        for _ in range(_CHANGES[profile]):
            gone.append(await _removal(node, kernel, device))
            sleeps.append(await timed(lambda: asyncio.sleep(_DEBOUNCE_SECONDS)))
        state = device / "ports/1/state"
        for number in range(_POLLED[profile]):
            # So that the tries do not march in step with the agent's seconds.
            await asyncio.sleep((number * 0.37) % 1.0)
            polled.append(await _until_listed(node, HCAS - 1, lambda: _write(state, "1: DOWN\n")))
            await _until_listed(node, HCAS, lambda: _write(state, "4: ACTIVE\n"))
    return [_uevents(gone, sleeps), _polls(polled)]


def _uevents(gone: list[float], sleeps: list[float]) -> Figure:
    return Figure(
        group="Changes of the hardware",
        what="uevent of an HCA that goes to the changed list",
        unit="ms",
        spread=spread(gone),
        floor=floor(_FLOOR, sleeps, gone),
        goals=(Goal(of="over the floor", most=100),),
        note="sent over a socket pair to an agent in a process of its own, when the HCA's entry had left the tree",
    )


def _polls(polled: list[float]) -> Figure:
    return Figure(
        group="Changes of the hardware",
        what="port that goes down to the changed list",
        unit="ms",
        spread=spread(polled),
        note="bound by the poll: no message tells of it, and ports are asked every 1000 ms",
    )


@contextlib.asynccontextmanager
async def _heard() -> AsyncIterator[tuple[Bed, socket.socket]]:
    """A bed whose agent hears what is sent to the socket."""
    theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    with theirs, ours:
        async with bed() as node:
            settings = node.set_to(recovery_seconds=_RECOVERY_SECONDS)
            async with agent_that_hears(settings, theirs.fileno()):
                await node.listed()
                yield node, ours


async def _removal(node: Bed, kernel: socket.socket, device: Path) -> float:
    target = await asyncio.to_thread(device.readlink)
    await asyncio.to_thread(device.unlink)
    took = await _until_listed(node, HCAS - 1, lambda: _send(kernel, "remove"))
    await asyncio.to_thread(device.symlink_to, target)
    await _until_listed(node, HCAS, lambda: _send(kernel, "add"))
    return took


async def _until_listed(node: Bed, count: int, cause: Callable[[], Awaitable[None]]) -> float:
    async def listed() -> None:
        await cause()
        await node.listed(count)

    return await timed(listed)


async def _send(kernel: socket.socket, action: str) -> None:
    await asyncio.get_running_loop().sock_sendall(kernel, _MESSAGE.format(action).encode())


async def _write(path: Path, text: str) -> None:
    await asyncio.to_thread(path.write_text, text)
