"""How the story is set: headings, paragraphs, quotes, in lines that fit a terminal and need no colour.

It must not know what is told.
"""

import textwrap
from collections.abc import Iterable
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

_WIDEST: Final = 80
_SHORTEST_RULE: Final = 3
"""Letters behind a heading, which tell it from a paragraph where there is no bold."""


class Signs(NamedTuple):
    """Letters that not every terminal has."""

    free: str
    dead: str
    quote: str
    rule: str


def signs(console: Console) -> Signs:
    """Those that the terminal can show."""
    return Signs("·", "✗", "│", "─") if console.encoding.startswith("utf") else Signs(".", "x", "|", "-")


class Page:
    """Where the story is written."""

    def __init__(self, console: Console) -> None:
        self.signs = signs(console)
        self.width = min(console.width, _WIDEST)
        self.heading = ""
        """The last title."""
        self._console = console
        self._apart = False
        self._steps = 0

    def step(self, title: str) -> None:
        """The head of the next step."""
        self._steps += 1
        self.title(f"{self._steps}. {title}")

    def title(self, title: str) -> None:
        """A heading."""
        self.heading = title
        self._begin()
        *above, last = textwrap.wrap(title, max(1, self.width - _SHORTEST_RULE - 1), break_on_hyphens=False)
        for line in (*above, f"{last} ".ljust(self.width, self.signs.rule)):
            self._print(Text(line, style="bold"))
        self._apart = False

    def say(self, text: str, style: str = "") -> None:
        """A paragraph."""
        self._begin()
        for line in textwrap.wrap(text, self.width, break_on_hyphens=False):
            self._print(Text(line, style=style))

    def close(self, sentences: Iterable[str], style: str) -> None:
        """The last paragraph, whose sentences stand in lines of their own."""
        for sentence in sentences:
            self.say(sentence, style=style)
            self._apart = False

    def quote(self, who: str, text: str) -> None:
        """Somebody's own words, with the name before them."""
        self._print(Text(f"{self.signs.quote} {who}:", style="yellow"))
        for line in textwrap.wrap(text, self.width - 4, break_on_hyphens=False):
            self._print(Text(f"{self.signs.quote}   {line}", style="yellow"))

    def show(self, picture: Iterable[Text]) -> None:
        """A picture, line by line."""
        self._begin()
        for line in picture:
            self._print(line)

    def _begin(self) -> None:
        """An empty line between parts, but not below a title, nor between a paragraph and its quote."""
        if self._apart:
            self._print(Text())
        self._apart = True

    def _print(self, line: Text) -> None:
        self._console.print(line, soft_wrap=True)
