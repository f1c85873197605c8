"""Figures in words: one row of text each, for a terminal and for a page alike.

It must not compute anything that the figure does not say.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure, Goal, Verdict

_NOTHING: Final = 0.0005
"""Less than this is what computing left."""

HEADINGS = ("what", "median", "p99", "max", "floor", "over it", "goal", "verdict")
_STYLES: Final[dict[Verdict, str]] = {
    "met": "green",
    "missed": "bold red",
    "missed, by the floor alone": "red",
    "no goal": "dim",
}


def number(value: float, unit: str = "") -> str:
    """Three digits that count, and the unit."""
    if abs(value) < _NOTHING:
        return f"0 {unit}".strip()
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2  # noqa: PLR2004 -- digits that count
    text = f"{value:,.{digits}f}"
    if digits and not text.strip("-0."):
        text = f"{value:.3g}"
    return f"{text} {unit}".strip()


def row(figure: Figure) -> tuple[str, ...]:
    """The cells of one figure, under ``HEADINGS``."""
    seen, unit = figure.spread, figure.unit
    return (
        figure.what,
        number(seen.median, unit),
        number(seen.p99) if seen.count > 1 else "",
        number(seen.maximum) if seen.count > 1 else "",
        _floor_text(figure),
        f"{number(figure.floor.over)} ({figure.floor.ratio:.1f}x)" if figure.floor else "",
        "; ".join(goal_text(goal) for goal in figure.goals),
        figure.verdict if figure.goals else "",
    )


def _floor_text(figure: Figure) -> str:
    if figure.floor is None:
        return ""
    seen = figure.floor.spread
    tail = f" (p99 {number(seen.p99)})" if seen.count > 1 else ""
    return number(seen.median, figure.unit) + tail


def goal_text(goal: Goal) -> str:
    """A goal in short."""
    return f"{goal.of} ≤ {number(goal.most)}"


def grouped(figures: Iterable[Figure]) -> Iterable[tuple[str, list[Figure]]]:
    """Figures by their group, in the order in which they came."""
    return ((group, list(found)) for group, found in groupby(figures, key=lambda one: one.group))


def show(figures: Iterable[Figure], console: Console) -> None:
    """Print all figures."""
    table = Table(title_justify="left")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in {"what", "goal", "verdict"} else "right")
    for group, found in grouped(figures):
        table.add_section()
        table.add_row(f"[bold]{group}[/]")
        for one in found:
            table.add_row(*row(one)[:-1], f"[{_STYLES[one.verdict]}]{row(one)[-1]}[/]")
    console.print(table)
