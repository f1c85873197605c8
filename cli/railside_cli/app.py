"""``railside``: the commands that people type, and what each exit status means.

It must not compute answers: each command has a module of its own.
"""

import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import App, Parameter
from rich.console import Console

from railside_agent.device_nodes import CharacterDevices
from railside_agent.discovery import discover
from railside_agent.patient_look import look_once
from railside_cli.demo.play import play
from railside_cli.exit_status import FINE, INTERRUPTED, UNREACHABLE
from railside_cli.flight import show
from railside_cli.topo.headline import status
from railside_cli.topo.picture import answer, picture


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """A reader that has seen enough is no failure; rich would end with 1, which here is a finding."""
        raise BrokenPipeError


Output = Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])]

app = App(
    name="railside",
    help="Pictures and reasons about a node's InfiniBand HCAs and GPUs.",
    help_epilogue="Exit status: 0 fine, 1 something is wrong, 2 bad usage, 3 nothing there to look at.",
    version=version("railside"),
    version_flags=["--version"],
)


@app.command
def topo(*, root: Path = Path("/"), output: Output = "text") -> int:
    """Draw NUMA nodes, switches, GPUs and HCAs, and how far each GPU is from each HCA.

    Parameters
    ----------
    root
        Where the machine's sys, proc and dev are: another root shows a recorded machine.
    output
        text for people, json for programs.
    """
    if not (root / "sys").is_dir():
        print(f"railside: {root} holds no machine: there is no folder {root / 'sys'}", file=sys.stderr)
        return UNREACHABLE
    machine = discover(look_once(root, CharacterDevices()))
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(answer(machine))).decode())
    else:
        # A name that is longer than the terminal is wide is for the terminal to break: none is cut off.
        _Console(highlight=False, emoji=False).print(picture(machine), crop=False)
    return status(machine)


@app.command
def demo(machine: Path) -> int:
    """Play a node without hardware, cluster or root: pods come and go, a picture after each step.

    Parameters
    ----------
    machine
        The machine to play, as a text manifest.
    """
    return play(machine, _Console(highlight=False, emoji=False))


@app.command
def replay(folder: Path, *, output: Output = "text") -> int:
    """Decide again what an agent recorded, and say whether the decisions come out the same.

    Parameters
    ----------
    folder
        The agent's recording: /var/lib/railside/recorder of a node, or a copy of it.
    output
        text for people, json for programs.
    """
    return show(folder, _Console(highlight=False, soft_wrap=True), as_json=output == "json")


def main() -> int:
    """Run the command line; return the exit status."""
    try:
        status = app(result_action="return_value")
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        # What was still to be printed has nowhere to go; a reader that has seen enough is no failure.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return FINE
        print(f"railside: {error}", file=sys.stderr)
        return UNREACHABLE
    return status if isinstance(status, int) else FINE


if __name__ == "__main__":
    raise SystemExit(main())
