"""What ``railside replay`` shows: the recorded decisions of an agent, decided again, one line each.

It must not decide: the agent's own core does, in ``railside_agent.replay``.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from rich.console import Console
from rich.markup import escape

from railside_agent.flight_log import Began, Entry, Note, Unreadable, read_all
from railside_agent.flight_ring import recordings
from railside_agent.replay import Replayed, replay
from railside_cli.complaint import complain
from railside_cli.exit_status import FINDING, FINE, UNREACHABLE
from railside_runtime.words import counted

Step = Replayed | Note | Began

_CUT: Final = (
    "is cut off in mid-line, as when the agent or its node died, or the copy is not whole: it is left out"
)
_SENSELESS: Final = (
    "makes no sense to this version: it is damaged, or of another version; from there to the next beginning all"
    " is left out"
)


class _Flight(NamedTuple):
    steps: list[Step]
    lost: list[str]
    """A sentence for each line that cannot be read."""

    @property
    def decided(self) -> list[Replayed]:
        return [step for step in self.steps if isinstance(step, Replayed)]


def show(path: Path, console: Console, *, as_json: bool) -> int:
    """Replay what is recorded in ``path``, a folder or one file; return the exit status. Raises OSError."""
    files = recordings(path)
    flight = _flight(files)
    decided = flight.decided
    if not decided:
        complain(_why_nothing(path, files, flight))
        return UNREACHABLE
    differing = [step for step in decided if step.differences]
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(decided)).decode())
        for sentence in flight.lost:
            complain(sentence)
    else:
        _print(flight, decided, differing, console)
    return FINDING if differing else FINE


def _flight(files: Iterable[Path]) -> _Flight:
    entries: list[Entry] = []
    lost: list[str] = []
    for file in files:
        for one in read_all(file.read_bytes()):
            if isinstance(one, Unreadable):
                lost.append(f"{file}:{one.line} {_CUT if one.cut else _SENSELESS}")
            else:
                entries.append(one)
    return _Flight(list(replay(entries)), lost)


def _why_nothing(path: Path, files: list[Path], flight: _Flight) -> str:
    if not files:
        where = "there are no files flight-NUMBER.jsonl in it" if path.is_dir() else "it is not there"
        return f"{path} holds no recording of an agent: {where}"
    if flight.lost:
        return flight.lost[0]
    if not any(file.stat().st_size for file in files):
        return f"the recording {files[0]} is empty"
    return f"the recording {files[0]} tells of no decision" + ("" if flight.steps else ", and not how it began")


def _print(flight: _Flight, decided: list[Replayed], differing: list[Replayed], console: Console) -> None:
    same = f"all {len(decided)} decisions come out" if len(decided) > 1 else "the only decision comes out"
    verb = "comes" if len(differing) == 1 else "come"
    other = f"{len(differing)} of {counted(len(decided), 'decision')} {verb} out otherwise than"
    console.print(f"{other if differing else f'{same} as'} recorded", style="bold red" if differing else "bold")
    for sentence in flight.lost:
        console.print(escape(sentence), style="yellow")
    for step in flight.steps:
        console.print(_line(step), markup=True)
    if differing:
        console.print("Next: run this with the agent's own version to see which change of the code it is.")


def _line(step: Step) -> str:
    match step:
        case Began(version=version, at=at, dropped=dropped):
            lost = f", which could not keep {dropped} lots of lines: the disk was too slow" if dropped else ""
            return f"{_clock(at)}  [bold]agent {escape(version)}[/]{lost}"
        case Note(at=at, what=what, facts=facts):
            said = "".join(f" {key}={_value(fact)}" for key, fact in facts.items())
            return f"{_clock(at)}  [dim]{escape(what + said)}[/]"
        case Replayed():
            lines = [f"{_clock(step.at)}  {escape(step.what)}"]
            lines += [f"              [red]{escape(one)}[/]" for one in step.differences]
            return "\n".join(lines)


def _value(fact: object) -> str:
    return ",".join(map(str, fact)) if isinstance(fact, list) else str(fact)


def _clock(at: str) -> str:
    """The time of day, as the recording says it: UTC, to the millisecond."""
    return at.partition("T")[2].partition("+")[0]
