import datetime as dt
import io
from pathlib import Path

import pytest
from benchmarks.document import document
from benchmarks.figures import Figure, Goal, floor, spread
from benchmarks.moments import Moments, latest
from benchmarks.report import Machine, Report, Run, read_report, write_report
from benchmarks.table import HEADINGS, number, row, show
from rich.console import Console

_SAMPLES = [10.0, 12.0, 14.0]
_MET = Figure(
    group="Calls",
    what="a call",
    unit="ms",
    spread=spread(_SAMPLES),
    floor=floor("an empty call", [5.0, 6.0, 7.0], _SAMPLES),
    goals=(Goal(of="median", most=25), Goal(of="over the floor", most=6)),
    note="as a client sees it",
)
_MISSED = Figure(
    group="Rest",
    what="memory",
    unit="MiB",
    spread=spread([70.0]),
    goals=(Goal(of="max", most=64),),
    note="once is enough",
)
_OF_MOMENTS = ("from, to", "times", "median", "longest")
_MOMENTS = Moments(on=dt.date(2026, 3, 11), seconds={"a start to its end": (3.0, 1.0, 2.5)})
_REPORT = Report(
    profile="short",
    on=dt.date(2026, 3, 12),
    machine=Machine(cores=2, kernel="6.1.0", python="3.11.9", virtual=True),
    load_before=0.25,
    load_after=1.5,
    seconds=100.0,
    figures=(_MET, _MISSED),
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1e-16, "0"),
        (0.001, "0.001"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (1234.5, "1,234"),
        (-4.0, "-4.00"),
    ],
)
def test_a_number_has_the_digits_that_count(value: float, text: str) -> None:
    """Three of them, and none that pretend to more."""
    assert number(value) == text
    assert number(value, "ms") == f"{text} ms"


def test_a_row_has_a_cell_for_each_heading() -> None:
    """The unit stands at the median and the floor, the ratio behind the difference, and the verdict last."""
    cells = dict(zip(HEADINGS, row(_MET), strict=True))
    assert cells == {
        "what": "a call",
        "median": "12.0 ms",
        "p99": "14.0",
        "max": "14.0",
        "floor": "6.00 ms (p99 7.00)",
        "over it": "6.00 (2.0x)",
        "goal": "median ≤ 25.0; over the floor ≤ 6.00",
        "verdict": "met",
    }


def test_a_single_sample_has_no_spread() -> None:
    """What was measured once says so by empty cells."""
    assert row(_MISSED) == ("memory", "70.0 MiB", "", "", "", "", "max ≤ 64.0", "missed")


def test_the_table_shows_groups_and_verdicts() -> None:
    """All figures stand below the name of their group."""
    out = io.StringIO()
    show(_REPORT.figures, Console(file=out, width=200))
    words = out.getvalue()
    assert [word for word in ("Calls", "a call", "met", "Rest", "memory", "missed") if word not in words] == []
    assert words.index("Calls") < words.index("a call") < words.index("Rest")


def test_the_page_says_what_was_missed_and_under_which_load() -> None:
    """Nobody has to add up the verdicts, or to guess how busy the machine was."""
    page = document(_REPORT, _MOMENTS)
    assert "1 of 2 figures meet their goals." in page
    assert "Missed: memory." in page
    assert "before the run 0.2" in " ".join(page.split())
    assert "2 cores, Linux 6.1.0, CPython 3.11.9" in page


def test_the_page_tells_each_floor() -> None:
    """A figure's floor and note stand below the tables, with the number of its samples."""
    page = document(_REPORT, _MOMENTS)
    assert "- **a call** (3 samples): as a client sees it; floor: an empty call" in page
    assert "- **memory** (1 sample): once is enough" in page


def test_tables_of_the_page_are_whole() -> None:
    """Every row has as many cells as its heading."""
    lines = [line for line in document(_REPORT, _MOMENTS).splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines} == {len(HEADINGS) + 1, len(_OF_MOMENTS) + 1}


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    """The page can be made of the file alone."""
    write_report(_REPORT, tmp_path / "build/bench.json")
    assert read_report(tmp_path / "build/bench.json") == _REPORT


def test_a_report_names_nobodys_machine() -> None:
    """Of the kernel only its version is kept."""
    report = Run("short").concluded([_MET])
    assert "-" not in report.machine.kernel
    assert (report.figures, report.profile) == ((_MET,), "short")


def test_times_on_the_real_kubelet_have_their_day() -> None:
    """The page has how often each was taken, the median and the longest, and when that was."""
    page = document(_REPORT, _MOMENTS)

    assert "Taken on 2026-03-11" in page
    assert "| a start to its end | 3 | 2.50 s | 3.00 s |" in page


def test_times_outlive_the_run_that_took_them(tmp_path: Path) -> None:
    """What was taken last stays with the page when nothing is taken anew."""
    taken, kept = tmp_path / "taken.json", tmp_path / "kept.json"
    taken.write_text('{"on": "2026-03-11", "seconds": {"a start to its end": [3.0, 1.0, 2.5]}}')
    first = latest(taken, kept)
    taken.unlink()

    assert _MOMENTS == first == latest(taken, kept)
