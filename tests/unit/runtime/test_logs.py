import io
import logging

import msgspec
import pytest
from tests.unit.builders import LogLines

from railside_runtime.log_options import Format
from railside_runtime.logs import ForeignLogs, make_logger


class _Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


def test_a_line_is_json_with_its_time_level_and_event_first() -> None:
    """A line for machines starts with ts, level and event, and holds every fact."""
    written = LogLines()
    written.log.info("container bound", seats=("n0-s0",), hca="mlx5_0")
    (line,) = written.lines
    assert list(line) == ["ts", "level", "event", "seats", "hca"]
    expected = {"level": "info", "event": "container bound", "seats": ["n0-s0"], "hca": "mlx5_0"}
    assert expected == {key: value for key, value in line.items() if key != "ts"}


def test_less_important_lines_are_left_out() -> None:
    """Only lines of at least the level asked for are written."""
    stream = io.BytesIO()
    log = make_logger("warning", "json", stream)
    log.info("small talk")
    log.warning("trouble")
    assert [msgspec.json.decode(line)["event"].encode() for line in stream.getvalue().splitlines()] == [b"trouble"]


def test_what_json_does_not_know_is_written_as_text() -> None:
    """A fact of any type is written, never an error."""
    written = LogLines()
    written.log.error("odd", fact=ValueError("strange"))
    assert [line["fact"] for line in written.lines] == ["strange"]


@pytest.mark.parametrize(
    ("form", "stream", "is_json"),
    [
        pytest.param("auto", io.BytesIO(), True, id="auto-file"),
        pytest.param("auto", _Terminal(), False, id="auto-terminal"),
        pytest.param("json", _Terminal(), True, id="json-terminal"),
        pytest.param("console", io.BytesIO(), False, id="console-file"),
    ],
)
def test_the_form_follows_the_stream_unless_told(form: Format, stream: io.BytesIO, *, is_json: bool) -> None:
    """A person at a terminal reads coloured lines, everything else JSON, unless a form is set."""
    make_logger("info", form, stream).info("starting", version="1")
    written = stream.getvalue()
    assert is_json == written.startswith(b"{")
    assert b"starting" in written


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param(logging.WARNING, ["warning"], id="warning"),
        pytest.param(logging.ERROR, ["error"], id="error"),
        pytest.param(logging.CRITICAL, ["error"], id="critical"),
    ],
)
def test_what_libraries_say_has_the_same_form(level: int, expected: list[str]) -> None:
    """A library's line goes through our logger, with the library's name."""
    written = LogLines()
    record = logging.LogRecord("aiohttp.server", level, "", 0, "no %s", ("luck",), None)
    ForeignLogs(written.log).handle(record)
    told = [(line["level"], line["event"], line["library"]) for line in written.lines]
    assert [(one, "no luck", "aiohttp.server") for one in expected] == told


def test_what_is_said_again_and_again_is_written_once_in_a_while() -> None:
    """Libraries that repeat themselves, by turns, as asyncio's servers without descriptors, fill no disk."""
    written = LogLines()
    handler = ForeignLogs(written.log)
    for at in (100.0, 100.1, 105.0, 109.9, 110.1, 110.2):
        for what in ("one server is out of descriptors", "another is"):
            record = logging.LogRecord("asyncio", logging.ERROR, "", 0, what, (), None)
            record.created = at
            handler.handle(record)
    assert written.events == ["one server is out of descriptors", "another is"] * 2


def test_a_library_that_misspells_its_message_is_heard_all_the_same() -> None:
    """Letters where its own text wants a number are no error for who logs them."""
    written = LogLines()
    ForeignLogs(written.log).handle(logging.LogRecord("x", logging.ERROR, "", 0, "%d left", ("no",), None))
    assert written.events == ["%d left"]


def test_what_libraries_say_takes_no_memory() -> None:
    """Messages that are new each time are all passed on, and the first ones are forgotten in time."""
    written = LogLines()
    handler = ForeignLogs(written.log)
    for what in (*map(str, range(100)), "0", "99"):
        record = logging.LogRecord("x", logging.ERROR, "", 0, what, (), None)
        record.created = 100.0
        handler.handle(record)
    assert written.events == [*map(str, range(100)), "0"]


def test_a_librarys_trace_is_kept() -> None:
    """The trace of an error that a library logs stands in the line."""
    written = LogLines()
    error = OSError("gone")
    record = logging.LogRecord("asyncio", logging.ERROR, "", 0, "bad", (), (OSError, error, None))
    ForeignLogs(written.log).handle(record)
    assert "OSError: gone" in written.lines[0]["exception"]


def test_small_talk_of_libraries_is_left_out() -> None:
    """What a library says below warning is not ours to repeat."""
    assert ForeignLogs(LogLines().log).level == logging.WARNING
