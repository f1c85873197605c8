"""Discovery of the machine with 8 GPUs and 8 HCAs, beside nothing but its opens, listings and reads.

What the floor opens is what a look opens, as the interpreter's audit tells. It must not look at another machine.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.bed import NODES, bed
from benchmarks.figures import Figure, Goal, floor, spread
from benchmarks.programs import IS_ROOT, module_program
from benchmarks.turns import timed_in_turns
from railside_agent.discovery import discover
from railside_agent.sysfs import read_whole_machine

_PAIRS: Final = {"short": 100, "full": 500}
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_LONGEST: Final = 4096


async def measure(profile: str) -> list[Figure]:
    """The figures."""
    async with bed() as node:
        touched = await _touched(node.root)
        looks, reads = await asyncio.to_thread(
            timed_in_turns, lambda: _look(node.root), lambda: _touch(touched), _PAIRS[profile]
        )
    device_nodes = "" if IS_ROOT else "; device nodes are stand-ins, which are opened as well"
    return [
        Figure(
            group="Discovery",
            what="machine with 8 GPUs and 8 HCAs read and understood",
            unit="ms",
            spread=spread(looks),
            floor=floor(f"the same {len(touched)} opens and listings, and their reads", reads, looks),
            goals=(Goal(of="median", most=25),),
            note=f"ports included, one card after the other{device_nodes}",
        )
    ]


async def _touched(root: Path) -> list[tuple[str, str]]:
    async with module_program("touched", str(root)) as program:
        assert program.stdout is not None  # noqa: S101 -- it was asked for
        return msgspec.json.decode(await program.stdout.read(), type=list[tuple[str, str]])


def _look(root: Path) -> None:
    discover(read_whole_machine(root, NODES))


def _touch(touched: Sequence[tuple[str, str]]) -> None:
    for how, path in touched:
        if how == "open":
            _read(path)
        else:
            os.listdir(path)  # noqa: PTH208 -- as the agent does


def _read(path: str) -> None:
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return
    os.read(descriptor, _LONGEST)
    os.close(descriptor)
