"""A value that one task sets and others wait for: the latest counts, steps between may be missed.

It must not queue: whoever looks late sees what is true now, not how it came about.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Generic, TypeVar

from railside_runtime.waiting import first_of

T = TypeVar("T")


class Cell(Generic[T]):
    """The latest value of one writer. Lives on one event loop, and needs no lock there."""

    def __init__(self, value: T) -> None:
        """Start with ``value``."""
        self._value = value
        self._changed = asyncio.Event()

    @property
    def value(self) -> T:
        """What is true now."""
        return self._value

    def set(self, value: T) -> None:
        """Make ``value`` what is true, and wake those who wait; an equal value wakes nobody."""
        if value == self._value:
            return
        self._value = value
        self._changed.set()
        self._changed = asyncio.Event()

    async def changes(self) -> AsyncIterator[T]:
        """The value now, and each newer one from then on. A slow reader skips those in between."""
        while True:
            seen, changed = self._value, self._changed
            yield seen
            await changed.wait()

    async def until(self, accept: Callable[[T], bool]) -> T:
        """The first value, from now on, that ``accept`` takes."""
        while not accept(self._value):
            await self._changed.wait()
        return self._value

    async def newer(self, than: object) -> None:
        """Return when the value is another than ``than``."""
        while self._value is than:
            await self._changed.wait()


async def until_any_changes(seen: Sequence[tuple[Cell[Any], object]]) -> None:
    """Return when one of the cells holds another value than the one beside it."""
    if all(cell.value is value for cell, value in seen):
        await first_of(*(cell.newer(value) for cell, value in seen))
