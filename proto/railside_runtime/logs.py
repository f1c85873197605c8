"""One logger for a program: JSON lines for machines, coloured ones for a person at a terminal.

It must not be configured globally: whoever logs is given the logger. Nothing secret goes into an event.
"""

import logging
import math
from typing import Any, BinaryIO, Final, Protocol, cast

import msgspec
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from railside_runtime.log_options import Format, Level

REPEAT_SECONDS: Final = 10.0

_MOST_REMEMBERED: Final = 64
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class LineStream(Protocol):
    """Where lines go."""

    def write(self, line: bytes, /) -> int:
        """Take one line."""

    def flush(self) -> None:
        """See it on its way."""

    def isatty(self) -> bool:
        """Whether a person reads."""


def make_logger(level: Level, form: Format, out: LineStream) -> FilteringBoundLogger:
    """A logger that writes lines of at least ``level`` to ``out``."""
    console = form == "console" or (form == "auto" and out.isatty())
    render: list[Processor] = [_ConsoleLine(colours=out.isatty())] if console else [_json_line]
    return cast(
        "FilteringBoundLogger",
        structlog.wrap_logger(
            structlog.BytesLogger(cast("BinaryIO", out)),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", key="ts"),
                structlog.processors.format_exc_info,
                *render,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        ),
    )


def _json_line(_logger: WrappedLogger, _method: str, event: EventDict) -> bytes:
    first = {key: event.pop(key) for key in ("ts", "level", "event")}
    return msgspec.json.encode({**first, **event}, enc_hook=str)


class _ConsoleLine:
    def __init__(self, *, colours: bool) -> None:
        self._renderer = structlog.dev.ConsoleRenderer(colors=colours)

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> bytes:
        event["timestamp"] = event.pop("ts")
        return str(self._renderer(logger, method, event)).encode()


class ForeignLogs(logging.Handler):
    """Passes on what libraries say through ``logging``, so that every line has one form."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        """Pass warnings and errors on to ``log``."""
        super().__init__(level=logging.WARNING)
        self._log = log
        self._said: dict[str, float] = {}
        """When each message of late was passed on, the latest last."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log ``record`` with its logger's name; what is said again and again, once in a while."""
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            # A library's slip of the pen must not become an error where it logs.
            message = str(record.msg)
        if record.created - self._said.get(message, -math.inf) < REPEAT_SECONDS:
            return
        self._said.pop(message, None)
        self._said[message] = record.created
        if len(self._said) > _MOST_REMEMBERED:
            del self._said[next(iter(self._said))]
        facts: dict[str, Any] = {"library": record.name}
        if record.exc_info:
            facts["exc_info"] = record.exc_info
        say = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        say(message, **facts)
