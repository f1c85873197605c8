"""Two things measured in turns, a figure and its floor: a machine that gets slower meets both alike.

It must not know what is measured.
"""

import time
from collections.abc import Awaitable, Callable

from benchmarks.figures import abba

_MILLISECONDS = 1000


async def taking_turns(
    one: Callable[[], Awaitable[float]], least: Callable[[], Awaitable[float]], pairs: int
) -> tuple[list[float], list[float]]:
    """What ``one`` and its floor ``least`` give, in pairs, A B B A."""
    of_one: list[float] = []
    of_least: list[float] = []
    for first in abba(pairs):
        (of_one if first else of_least).append(await (one() if first else least()))
    return of_one, of_least


def timed_in_turns(
    one: Callable[[], object], least: Callable[[], object], pairs: int
) -> tuple[list[float], list[float]]:
    """How long ``one`` and its floor ``least`` take, in milliseconds, in pairs, A B B A. Blocks as long."""
    of_one: list[float] = []
    of_least: list[float] = []
    for first in abba(pairs):
        began = time.perf_counter()
        (one if first else least)()
        (of_one if first else of_least).append(_milliseconds_since(began))
    return of_one, of_least


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    """How long ``call`` takes, in milliseconds."""
    began = time.perf_counter()
    await call()
    return _milliseconds_since(began)


def _milliseconds_since(began: float) -> float:
    return (time.perf_counter() - began) * _MILLISECONDS
