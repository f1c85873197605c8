"""What the agent says: its log, line by line, for whoever waits for a sentence or quotes one.

It must not interpret a line any further than its fields.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from railside_runtime.cell import Cell

PATIENCE_SECONDS: Final = 20.0
"""How long the agent may take to say or do what the story waits for: a loaded machine is no failure."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    event: str
    fields: dict[str, Any]

    @property
    def reason(self) -> str:
        """The reason's code; empty where the line has none."""
        return str(self.fields.get("reason", ""))

    @property
    def text(self) -> str:
        """What a person reads of it."""
        why = self.fields.get("why")
        return f"{self.event}: {why}; {self.fields['remedy']}" if why else self.event


class AgentWords:
    """A stream for a logger, which writes JSON lines to it from any thread."""

    def __init__(self) -> None:
        """Listen on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._lines: Cell[tuple[Line, ...]] = Cell(())

    @property
    def count(self) -> int:
        """How many lines there are: where to go on reading."""
        return len(self._lines.value)

    async def heard(self, holds: Callable[[Line], bool], since: int = 0) -> Line:
        """The first line, from number ``since`` on, for which ``holds`` does. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            lines = await self._lines.until(lambda lines: any(map(holds, lines[since:])))
        return next(filter(holds, lines[since:]))

    def write(self, line: bytes, /) -> int:
        """Take one line."""
        fields = msgspec.json.decode(line)
        said = Line(event=fields.pop("event"), fields=fields)
        self._loop.call_soon_threadsafe(self._take, said)
        return len(line)

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        """No: who reads here wants fields."""
        return False

    def _take(self, said: Line) -> None:
        self._lines.set((*self._lines.value, said))
