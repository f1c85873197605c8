"""``python -m benchmarks``: runs the groups, prints one table and writes the report; or makes the page of one.

It must not measure by itself. A goal that is missed is told, and is no error: machines differ.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks import calls, deciding, filtering, hearing, looking, rest, restarts, start_up
from benchmarks.document import document
from benchmarks.figures import Figure
from benchmarks.moments import latest
from benchmarks.programs import REPOSITORY, BenchmarkError
from benchmarks.report import Run, read_report, write_report
from benchmarks.table import show

Group = Callable[[str], Awaitable[list[Figure]]]

_GROUPS: Final[dict[str, Group]] = {
    "start": start_up.measure,
    "restarts": restarts.measure,
    "hearing": hearing.measure,
    "calls": calls.measure,
    "looking": looking.measure,
    "rest": rest.measure,
    "deciding": deciding.measure,
    "filtering": filtering.measure,
}
_REPORT: Final = REPOSITORY / "build/bench.json"
_PAGE_WIDTH: Final = 150
"""Of a table that goes to a file."""

_PAGE: Final = REPOSITORY / "docs/performance.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    options = _parser().parse_args(arguments)
    if options.document:
        _write_page(options.report)
        return 0
    names = options.only or list(_GROUPS)
    run = Run(options.profile)
    try:
        figures = asyncio.run(_measured(names, options.profile))
    except BenchmarkError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    write_report(run.concluded(figures), options.report)
    show(figures, Console() if sys.stdout.isatty() else Console(width=_PAGE_WIDTH))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--profile", choices=("short", "full"), default="short", help="how many samples")
    parser.add_argument("--only", action="append", choices=_GROUPS, help="one group; may be given again")
    parser.add_argument("--report", type=Path, default=_REPORT, help="file that the figures are written to")
    parser.add_argument("--document", action="store_true", help="measure nothing, make the page of the report")
    return parser


async def _measured(names: Sequence[str], profile: str) -> list[Figure]:
    figures: list[Figure] = []
    for name in names:
        print(f"measuring: {name}", file=sys.stderr)
        figures += await _GROUPS[name](profile)
    return figures


def _write_page(report: Path) -> None:
    _PAGE.parent.mkdir(exist_ok=True)
    _PAGE.write_text(document(read_report(report), latest()), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
