"""A program from its command line to its exit status: settings, logs, signals, and what went wrong in words.

It must not know what a program is for, nor load any.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Generic, Never, Protocol, TypeVar

import msgspec
from structlog.typing import FilteringBoundLogger

from railside_runtime.log_options import Format, Level
from railside_runtime.log_pipe import LogPipe
from railside_runtime.logs import ForeignLogs, make_logger
from railside_runtime.settings import KnownSettings, Resolved, SettingsError

S = TypeVar("S", bound=msgspec.Struct)

OK: Final = 0
BROKEN: Final = 1
USAGE: Final = 2


class Runs(Protocol):
    """What a program does until it is told to stop."""

    async def run(self) -> Never:
        """Work until cancelled. Raises an ExceptionGroup when a part breaks."""


class Command(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """What a program can do beside running."""

    meaning: str
    do: Callable[[Resolved[S]], int]
    """Gives the exit status."""


class Program(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """One program: what it is called, and what it is made of."""

    name: str
    description: str
    settings: KnownSettings[S]
    logs: Callable[[S], tuple[Level, Format]]
    make: Callable[[S, FilteringBoundLogger], Runs]
    foreseen: type[Exception]
    """What may end it and is no bug: its text is all that a person needs."""
    refuse: Callable[[Resolved[S]], None] = lambda _: None
    """Raises SettingsError for settings that can be printed but not run."""
    others: Mapping[str, Command[S]] = {}

    @property
    def meanings(self) -> dict[str, str]:
        """What each of its commands does."""
        return {
            "run": "run until told to stop",
            "config": "print each setting's value and source, and stop",
            **{name: command.meaning for name, command in self.others.items()},
        }


def run_command_line(program: Program[S], arguments: Sequence[str] | None) -> int:
    """The exit status: 0 when told to stop, 1 when something broke, 2 for bad usage."""
    options = _parser(program).parse_args(arguments)
    try:
        return _obey(program, options.command, _settings(program.settings, options))
    except SettingsError as error:
        complain(program.name, str(error))
        return USAGE


def complain(name: str, sentence: str) -> None:
    """Tell whoever typed the command why it did not do what it should."""
    print(f"{name}: {sentence}", file=sys.stderr)


def _obey(program: Program[S], command: str, resolved: Resolved[S]) -> int:
    if command == "config":
        print(_table(resolved))
        return OK
    if command in program.others:
        return program.others[command].do(resolved)
    program.refuse(resolved)
    return _run(program, resolved)


def _parser(program: Program[S]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program.name,
        description=program.description,
        epilog=f"Each flag can also be set as {program.settings.prefix}UPPER_CASE, or in the file that --config"
        " names, in camelCase; the first of these that sets it wins.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{program.name} {version('railside')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar=" | ".join(program.meanings))
    for name, meaning in program.meanings.items():
        command = commands.add_parser(
            name,
            help=meaning,
            description=meaning,
            # With thirty flags the usage would bury what is wrong.
            usage=f"{program.name} {name} [-h] [--config FILE] [--SETTING VALUE ...]",
            # A flag that a later version adds must not change what a short one means.
            allow_abbrev=False,
        )
        _add_settings(command, program.settings)
    return parser


def _add_settings(command: argparse.ArgumentParser, known: KnownSettings[S]) -> None:
    command.add_argument("--config", metavar="FILE", type=Path, help="YAML file of settings")
    for key, description in known.descriptions().items():
        stands_for, default = known.value_words(key)
        told = f"{description} (${known.variable(key)}; default: {default or 'empty'})"
        command.add_argument(known.flag(key), dest=key, metavar=stands_for, help=told.replace("%", "%%"))


def _settings(known: KnownSettings[S], options: argparse.Namespace) -> Resolved[S]:
    flags = {key: getattr(options, key) for key in known.descriptions()}
    said = {key: text for key, text in flags.items() if text is not None}
    file = _read(options.config) if options.config else {}
    return known.resolve(file, os.environ, said, str(options.config or "the file"))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = msgspec.yaml.decode(path.read_bytes(), type=dict[str, Any] | None)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise SettingsError(f"{path} is no YAML mapping of settings: {' '.join(str(error).split())}") from None
    return content or {}


def _table(resolved: Resolved[S]) -> str:
    rows = [(origin.key, origin.source, msgspec.json.encode(origin.value).decode()) for origin in resolved.origins]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    # Values last: a list is as wide as it is.
    return "\n".join(f"{key:{widths[0]}}  {source:{widths[1]}}  {value}" for key, source, value in rows)


def _run(program: Program[S], resolved: Resolved[S]) -> int:
    pipe = LogPipe(sys.stderr.buffer)
    try:
        return _run_logged(program, resolved, make_logger(*program.logs(resolved.settings), pipe))
    finally:
        pipe.close()


def _run_logged(program: Program[S], resolved: Resolved[S], log: FilteringBoundLogger) -> int:
    logging.basicConfig(handlers=[ForeignLogs(log)], force=True)
    log.info("starting", version=version("railside"), **{origin.key: origin.value for origin in resolved.origins})
    try:
        asyncio.run(_until_told_to_stop(program.make(resolved.settings, log)))
    except ExceptionGroup as group:
        broken = group
    else:
        log.info("stopped")
        return OK
    _explain(broken, program.foreseen, log)
    return BROKEN


def _explain(broken: ExceptionGroup[Exception], foreseen: type[Exception], log: FilteringBoundLogger) -> None:
    """What was foreseen is one sentence; anything else is a bug, and its trace is what helps."""
    told, bugs = broken.split(foreseen)
    if told is not None:
        log.error("stopping", why="; ".join(str(error) for error in told.exceptions))
    if bugs is not None:
        log.error("this is a bug", exc_info=bugs)


async def _until_told_to_stop(part: Runs) -> None:
    """Run ``part`` until SIGTERM, SIGINT or SIGHUP, then cancel it and see it end.

    SIGHUP is an end, too: settings are read when a process starts, and who supervises it starts the next.
    """
    running = asyncio.current_task()
    assert running is not None  # noqa: S101 -- a coroutine runs in a task
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, running.cancel)
    try:
        await part.run()
    except asyncio.CancelledError:
        running.uncancel()
