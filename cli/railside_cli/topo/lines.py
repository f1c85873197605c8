"""Lines that a terminal is too narrow for: they go on below, further in. It must not know what they say."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text


class Hanging:
    """A line, moved in by ``first`` columns, and by ``rest`` where it goes on below. No blanks trail it."""

    def __init__(self, text: Text, *, first: int = 0, rest: int = 0) -> None:
        self._text = text
        self._first = first
        self._rest = rest

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [self._text]
        if self._first + self._text.cell_len > options.max_width:
            room = options.max_width - max(self._first, self._rest)
            lines = list(self._text.wrap(console, max(1, room)))
        for number, line in enumerate(lines):
            whole = Text(" " * (self._rest if number else self._first), no_wrap=True, overflow="ignore")
            whole.append_text(line).rstrip()
            yield whole


def marked_up(markup: str) -> Text:
    """Markup as it is meant: the bus of ``0000:ab:00.0`` is no picture of the letters AB."""
    return Text.from_markup(markup, emoji=False)
