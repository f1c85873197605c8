"""docs/performance.md, made of a report. It must not say anything that the report does not bear out."""

from collections.abc import Iterator

from benchmarks.figures import Figure
from benchmarks.moments import Moments, section
from benchmarks.report import Report
from benchmarks.table import HEADINGS, grouped, row
from railside_runtime.words import counted

_HEAD = """\
# Performance of the agent

This page is made by `make bench-doc` from the output of a run; do not edit it. Beside each figure stands its
floor: what could not be done without, measured in the same run, in turns (A B B A), so that a busy machine slows
both. *Over it* is the median of all pairs' differences, and in brackets that of their ratios. Compare ratios and
differences between machines, never times.
"""

_TAIL = """\
## How to measure it yourself

```console
$ make bench          # the short profile, under 5 minutes; writes build/bench.json
$ make bench-full     # more samples and longer rests
$ make proof-restarts # the times on the real kubelet; as root
$ make bench-doc      # this page, from build/bench.json and build/proof/moments.json
```

`.venv/bin/python -m benchmarks --only calls` runs one group. As root the agent makes and reads real device nodes;
without root a runner gives it stand-ins, which cost less. The agent runs as its own process on the tree of
`tests/machines/ecs.hpcpni3.45xlarge.machine`, with compiled files and without rich, as in its image, beside the
kubelet of `railside_sim` on real unix sockets. Its `sys`, `dev` and `run` lie in memory (`/dev/shm`), `var/lib`
on the disk of the temporary folder.
"""


def document(report: Report, moments: Moments) -> str:
    """The page."""
    return "\n".join([_HEAD, *_run(report), *_tables(report), *section(moments), *_notes(report), _TAIL])


def _run(report: Report) -> Iterator[str]:
    machine = report.machine
    kind = "virtual machine" if machine.virtual else "machine"
    yield f"Measured on {report.on} (profile `{report.profile}`, {report.seconds:.0f} s) on a {kind} with"
    yield f"{machine.cores} cores, Linux {machine.kernel}, CPython {machine.python}. Load of the last minute:"
    yield f"before the run {report.load_before:.1f}, behind it {report.load_after:.1f}. Where it was well above"
    yield "nothing before, others used the machine, and the times are provisional.\n"
    missed = [one.what for one in report.figures if one.verdict.startswith("missed")]
    with_goal = [one for one in report.figures if one.goals]
    yield f"{len(with_goal) - len(missed)} of {len(with_goal)} figures meet their goals."
    yield "Where the floor alone misses a goal, the verdict says so: then the calling side alone was too slow."
    yield f"Missed: {'; '.join(missed)}.\n" if missed else ""


def _tables(report: Report) -> Iterator[str]:
    for group, figures in grouped(report.figures):
        yield f"## {group}\n"
        yield _line(HEADINGS)
        yield _line(["---", *["--:"] * 5, "---", "---"])
        yield from (_line(row(one)) for one in figures)
        yield ""


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _notes(report: Report) -> Iterator[str]:
    yield "## What is what\n"
    for one in report.figures:
        if text := _note(one):
            yield f"- **{one.what}** ({counted(one.spread.count, 'sample')}): {text}"
    yield ""


def _note(figure: Figure) -> str:
    floor = f"floor: {figure.floor.what}" if figure.floor else ""
    return "; ".join(part for part in (figure.note, floor) if part)
