"""``railside``: the commands that people type, and what each exit status means.

It must not compute answers: each command has a module of its own.
"""

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from cyclopts import App, CycloptsError, Parameter
from rich.console import Console

from railside_agent.device_nodes import CharacterDevices
from railside_agent.discovery import discover
from railside_agent.patient_look import look_once
from railside_cli.complaint import complain, unreadable
from railside_cli.demo.play import play
from railside_cli.exit_status import FINE, INTERRUPTED, UNREACHABLE, UNWRITTEN, USAGE
from railside_cli.flight import show
from railside_cli.output import Output, OutputError
from railside_cli.topo.headline import status
from railside_cli.topo.picture import answer, picture
from railside_cli.usage import usage_problem
from railside_cli.why.ask import why

Form = Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])]

_STDOUT: Final = 1

app = App(
    name="railside",
    help="Pictures and reasons about a node's InfiniBand HCAs and GPUs.",
    help_epilogue="Exit status: 0 fine, 1 something is wrong, 2 bad usage, 3 nothing there to look at, 74 what was"
    " found cannot be written.",
    version=f"railside {version('railside')}",
    version_flags=["--version"],
)


@app.command
def topo(*, root: Path = Path("/"), output: Form = "text") -> int:
    """Draw NUMA nodes, switches, GPUs and HCAs, and how far each GPU is from each HCA.

    Parameters
    ----------
    root
        Where the machine's sys, proc and dev are: another root shows a recorded machine.
    output
        text for people, json for programs.
    """
    if not (root / "sys").is_dir():
        complain(f"{root} holds no machine: there is no folder {root / 'sys'}")
        return UNREACHABLE
    machine = discover(look_once(root, CharacterDevices()))
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(answer(machine))).decode())
    else:
        # A name that is longer than the terminal is wide is for the terminal to break: none is cut off.
        Console(highlight=False, emoji=False).print(picture(machine), crop=False)
    return status(machine)


@app.command
def demo(machine: Path, /, *, keep: Path | None = None) -> int:
    """Play a node without hardware, cluster or root: pods come and go, a picture after each step.

    Parameters
    ----------
    machine
        The machine to play, as a text manifest.
    keep
        An empty folder for the agent's recording, which railside replay decides again.
    """
    return play(machine, Console(highlight=False, emoji=False), keep)


@app.command
def replay(folder: Path, /, *, output: Form = "text") -> int:
    """Decide again what an agent recorded, and say whether the decisions come out the same.

    Parameters
    ----------
    folder
        The agent's recording: /var/lib/railside/recorder of a node, a copy of it, or one of its files; railside
        demo --keep FOLDER makes one.
    output
        text for people, json for programs.
    """
    return show(folder, Console(highlight=False, soft_wrap=True), as_json=output == "json")


@app.command(name="why")
def why_pod(
    pod: str,
    /,
    *,
    namespace: Annotated[str, Parameter(name=["--namespace", "-n"])] = "default",
    kubeconfig: Path | None = None,
    output: Form = "text",
) -> int:
    """Say why a pod waits, node by node, or what it was given and how near that is to its GPUs.

    Parameters
    ----------
    pod
        The pod's name.
    namespace
        Its namespace.
    kubeconfig
        Who asks the API server: $KUBECONFIG, or ~/.kube/config, unless said here.
    output
        text for people, json for programs.
    """
    usual = os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
    chosen = str(kubeconfig) if kubeconfig else usual
    console = Console(highlight=False, emoji=False)
    return why(pod, namespace, chosen, console, as_json=output == "json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except CycloptsError as error:
        complain(usage_problem(error, [name for name in app if not name.startswith("-")]))
        return USAGE
    except OutputError as error:
        return _unwritten(error)
    except OSError as error:
        complain(unreadable(error))
        return UNREACHABLE


def _run(arguments: Sequence[str] | None) -> int:
    """Raises whatever ends a command early."""
    if sys.__stdout__ is None:
        raise OutputError(OSError(errno.EBADF, "stdout is closed"))
    with contextlib.redirect_stdout(Output(sys.stdout)) as output:
        status = app(arguments, result_action="return_value", exit_on_error=False, print_error=False)
        output.flush()
    return status if isinstance(status, int) else FINE


def _unwritten(error: OutputError) -> int:
    # What was still to be printed has nowhere to go, and Python would try once more at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)
    if error.reader_gone:
        return FINE
    complain(f"what was found cannot be written: {error}")
    return UNWRITTEN


if __name__ == "__main__":
    raise SystemExit(main())
