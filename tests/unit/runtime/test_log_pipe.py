import io
import os
import threading

import msgspec

from railside_runtime.log_pipe import LogPipe


class _Stalled(io.BytesIO):
    """A reader that takes nothing until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = threading.Event()
        self.released = threading.Event()

    def write(self, line: bytes) -> int:  # type: ignore[override]
        self.taken.set()
        self.released.wait(5)
        return super().write(line)


def test_lines_arrive_in_order_and_before_the_end() -> None:
    """What was logged before the end is written."""
    stream = io.BytesIO()
    pipe = LogPipe(stream)
    for number in range(100):
        pipe.write(b"%d\n" % number)
    pipe.close()
    assert [b"%d" % number for number in range(100)] == stream.getvalue().splitlines()


def test_a_reader_that_stalls_stalls_nobody() -> None:
    """Lines beyond the room are dropped, and how many is told when the reader goes on."""
    stream = _Stalled()
    pipe = LogPipe(stream, room_lines=2)
    pipe.write(b"first\n")
    stream.taken.wait(5)
    for _ in range(10):
        pipe.write(b"more\n")
    stream.released.set()
    pipe.close()
    lines = stream.getvalue().splitlines()
    assert [line for line in lines if not line.startswith(b"{")] == [b"first", b"more", b"more"]
    assert [msgspec.json.decode(line)["count"] for line in lines if line.startswith(b"{")] == [8]


def test_a_reader_that_has_gone_ends_nothing() -> None:
    """A closed pipe swallows lines."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb", buffering=0) as stream:
        pipe = LogPipe(stream)
        pipe.write(b"to nobody\n")
        pipe.write(b"again\n")
        pipe.close()
