"""What ``railside replay`` shows: the recorded decisions of an agent, decided again, one line each.

It must not decide: the agent's own core does, in ``railside_agent.replay``.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape

from railside_agent.flight_log import Began, Note, read
from railside_agent.flight_ring import recorded
from railside_agent.replay import Replayed, replay
from railside_cli.exit_status import FINDING, FINE, UNREACHABLE

Step = Replayed | Note | Began


def show(folder: Path, console: Console, *, as_json: bool) -> int:
    """Replay what is recorded in ``folder``; return the exit status. Raises OSError."""
    steps = list(replay(read(recorded(folder))))
    decided = [step for step in steps if isinstance(step, Replayed)]
    if not decided:
        console.print(f"railside: {escape(str(folder))} holds no recording of an agent")
        return UNREACHABLE
    differing = [step for step in decided if step.differences]
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(decided)).decode())
    else:
        _print(steps, decided, differing, console)
    return FINDING if differing else FINE


def _print(steps: Iterable[Step], decided: list[Replayed], differing: list[Replayed], console: Console) -> None:
    same = f"all {len(decided)} decisions come out as they were recorded"
    other = f"{len(differing)} of {len(decided)} decisions come out otherwise than they were recorded"
    console.print(other if differing else same, style="bold red" if differing else "bold")
    for step in steps:
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
