"""``railside-agent``: reads the settings, sets up logs and signals, and runs the agent.

It must hold no decision about devices; what it prints is for the operator who starts it.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec
from structlog.typing import FilteringBoundLogger

from railside_agent.alone import DisplacedError
from railside_agent.app import Agent
from railside_agent.flight_ring import recorded
from railside_agent.settings import (
    Resolved,
    SettingsError,
    descriptions,
    flag,
    refuse_unusable,
    resolve,
    value_words,
    variable,
)
from railside_proto.names import RECORDER_DIR
from railside_runtime.log_pipe import LogPipe
from railside_runtime.logs import ForeignLogs, make_logger

_COMMANDS: Final = {
    "run": "run the agent",
    "config": "print each setting's value and source, and stop",
    "recording": "print what the agent has recorded, for railside replay, and stop",
}

OK: Final = 0
BROKEN: Final = 1
USAGE: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. The exit status is 0 when told to stop, 1 when something broke, 2 for bad usage."""
    options = _parser().parse_args(arguments)
    try:
        resolved = _settings(options)
    except SettingsError as error:
        print(f"railside-agent: {error}", file=sys.stderr)
        return USAGE
    if options.command == "config":
        print(_table(resolved))
        return OK
    if options.command == "recording":
        return _print_recording(Path(resolved.settings.root))
    try:
        refuse_unusable(resolved.settings)
        _refuse_empty_root(resolved)
    except SettingsError as error:
        print(f"railside-agent: {error}", file=sys.stderr)
        return USAGE
    return _run(resolved)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="railside-agent",
        description="Offers this node's InfiniBand HCAs to its kubelet.",
        epilog="Each flag can also be set as RAILSIDE_AGENT_UPPER_CASE, or in the file that --config names, in"
        " camelCase; the first of these that sets it wins.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"railside-agent {version('railside')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="run | config | recording")
    for name, meaning in _COMMANDS.items():
        _add_settings(
            commands.add_parser(
                name,
                help=meaning,
                description=meaning,
                # With thirty flags the usage would bury what is wrong.
                usage=f"railside-agent {name} [-h] [--config FILE] [--SETTING VALUE ...]",
                # A flag that a later version adds must not change what a short one means.
                allow_abbrev=False,
            )
        )
    return parser


def _add_settings(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", metavar="FILE", type=Path, help="YAML file of settings")
    for key, description in descriptions().items():
        stands_for, default = value_words(key)
        told = f"{description} (${variable(key)}; default: {default or 'empty'})"
        command.add_argument(flag(key), dest=key, metavar=stands_for, help=told.replace("%", "%%"))


def _settings(options: argparse.Namespace) -> Resolved:
    flags = {key: getattr(options, key) for key in descriptions()}
    said = {key: text for key, text in flags.items() if text is not None}
    file = _read(options.config) if options.config else {}
    return resolve(file, os.environ, said, str(options.config or "the file"))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = msgspec.yaml.decode(path.read_bytes(), type=dict[str, Any] | None)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise SettingsError(f"{path} is no YAML mapping of settings: {' '.join(str(error).split())}") from None
    return content or {}


def _refuse_empty_root(resolved: Resolved) -> None:
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


def _print_recording(root: Path) -> int:
    """Copy the recording to stdout: the image has no other program that could."""
    folder = root / RECORDER_DIR
    try:
        lines = recorded(folder)
    except OSError as error:
        print(f"railside-agent: {folder} cannot be read: {error.strerror}", file=sys.stderr)
        return BROKEN
    if not lines:
        print(f"railside-agent: nothing is recorded in {folder}", file=sys.stderr)
        return BROKEN
    sys.stdout.buffer.write(lines)
    return OK


def _table(resolved: Resolved) -> str:
    rows = [(origin.key, origin.source, msgspec.json.encode(origin.value).decode()) for origin in resolved.origins]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    # Values last: a list of pools is as wide as it is.
    return "\n".join(f"{key:{widths[0]}}  {source:{widths[1]}}  {value}" for key, source, value in rows)


def _run(resolved: Resolved) -> int:
    settings = resolved.settings
    pipe = LogPipe(sys.stderr.buffer)
    try:
        return _run_logged(resolved, make_logger(settings.log_level, settings.log_format, pipe))
    finally:
        pipe.close()


def _run_logged(resolved: Resolved, log: FilteringBoundLogger) -> int:
    logging.basicConfig(handlers=[ForeignLogs(log)], force=True)
    log.info("starting", version=version("railside"), **{origin.key: origin.value for origin in resolved.origins})
    try:
        asyncio.run(_until_told_to_stop(Agent(resolved.settings, log)))
    except ExceptionGroup as group:
        broken = group
    else:
        log.info("stopped")
        return OK
    _explain(broken, log)
    return BROKEN


def _explain(broken: ExceptionGroup[Exception], log: FilteringBoundLogger) -> None:
    """Another agent on the machine is one sentence; anything else is a bug, and its trace is what helps."""
    displaced, bugs = broken.split(DisplacedError)
    if displaced is not None:
        log.error("stopping", why="; ".join(str(error) for error in displaced.exceptions))
    if bugs is not None:
        log.error("this is a bug", exc_info=bugs)


async def _until_told_to_stop(agent: Agent) -> None:
    """Run ``agent`` until SIGTERM, SIGINT or SIGHUP, then cancel it and see it end.

    SIGHUP is an end, too: settings are read when a process starts, and who supervises it starts the next.
    """
    running = asyncio.current_task()
    assert running is not None  # noqa: S101 -- a coroutine runs in a task
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, running.cancel)
    try:
        await agent.run()
    except asyncio.CancelledError:
        running.uncancel()
