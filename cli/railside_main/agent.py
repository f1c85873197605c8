"""``railside-agent``: the agent as a program that an operator runs, with what its recorder keeps.

It must hold no decision about devices; what it prints is for the operator who starts it.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from railside_agent.alone import DisplacedError
from railside_agent.app import Agent
from railside_agent.flight_ring import recorded
from railside_agent.settings import AGENT_SETTINGS, Settings, refuse_unusable
from railside_main.program import BROKEN, OK, Command, Program, complain, run_command_line
from railside_proto.names import RECORDER_DIR
from railside_runtime.settings import Resolved, SettingsError

_NAME: Final = "railside-agent"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. The exit status is 0 when told to stop, 1 when something broke, 2 for bad usage."""
    return run_command_line(_PROGRAM, arguments)


def _refuse(resolved: Resolved[Settings]) -> None:
    refuse_unusable(resolved.settings)
    _refuse_empty_root(resolved)


def _refuse_empty_root(resolved: Resolved[Settings]) -> None:
    """Raises SettingsError for a root without a machine: a slip of the pen must not look like one without HCAs."""
    (source,) = (one.source for one in resolved.origins if one.key == "root")
    root = Path(resolved.settings.root)
    try:
        found = (root / "sys").is_dir()
    except OSError as error:
        raise SettingsError(f"root is '{root}' (from {source}), which cannot be read: {error.strerror}") from None
    if not found:
        raise SettingsError(
            f"root is '{root}' (from {source}), which holds no machine: there is no folder {root / 'sys'}"
        )


def _print_recording(resolved: Resolved[Settings]) -> int:
    """Copy the recording to stdout: the image has no other program that could."""
    folder = Path(resolved.settings.root) / RECORDER_DIR
    try:
        lines = recorded(folder)
    except OSError as error:
        complain(_NAME, f"{folder} cannot be read: {error.strerror}")
        return BROKEN
    if not lines:
        complain(_NAME, f"nothing is recorded in {folder}")
        return BROKEN
    sys.stdout.buffer.write(lines)
    return OK


_PROGRAM: Final = Program(
    name=_NAME,
    description="Offers this node's InfiniBand HCAs to its kubelet.",
    settings=AGENT_SETTINGS,
    logs=lambda settings: (settings.log_level, settings.log_format),
    make=Agent,
    foreseen=DisplacedError,
    refuse=_refuse,
    others={
        "recording": Command(
            meaning="print what the agent has recorded, for railside replay, and stop", do=_print_recording
        )
    },
)
