import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

from railside_runtime.cell import Cell

T = TypeVar("T")


async def test_a_slow_reader_sees_the_latest_value_only() -> None:
    """Values between two looks of a reader are skipped, the last never is (B-DP-21)."""
    cell = Cell(0)
    changes = cell.changes()
    first = await anext(changes)
    cell.set(1)
    cell.set(2)
    assert (first, await anext(changes)) == (0, 2)


async def test_each_reader_starts_with_the_value_now() -> None:
    """A reader that comes late is told at once what is true (B-DP-21)."""
    cell = Cell(0)
    cell.set(7)
    assert await anext(cell.changes()) == 7


async def test_a_change_wakes_every_reader() -> None:
    """All who wait are woken by one change."""
    cell = Cell(0)
    readers = [cell.changes() for _ in range(3)]
    for reader in readers:
        await anext(reader)
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(_next(reader)) for reader in readers]
        cell.set(5)
    assert [task.result() for task in waiting] == [5, 5, 5]


async def test_an_equal_value_wakes_nobody() -> None:
    """Setting what is already true is no news: the reader's next value is the next different one."""
    cell = Cell((1,))
    changes = cell.changes()
    await anext(changes)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(_next(changes))
        await asyncio.wait([waiting], timeout=0)
        cell.set((1,))
        done, _ = await asyncio.wait([waiting], timeout=0)
        cell.set((2,))
    assert (set(), (2,)) == (done, waiting.result())


async def test_until_waits_for_a_value_that_is_accepted() -> None:
    """``until`` passes over values that are not accepted."""
    cell = Cell(0)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(cell.until(lambda value: value > 1))
        await asyncio.wait([waiting], timeout=0)
        cell.set(1)
        await asyncio.wait([waiting], timeout=0)
        cell.set(2)
    assert waiting.result() == 2


async def test_until_takes_a_value_that_is_there() -> None:
    """``until`` comes back at once where the value is accepted already."""
    assert await Cell(3).until(lambda value: value == 3) == 3


async def _next(changes: AsyncIterator[T]) -> T:
    return await anext(changes)
