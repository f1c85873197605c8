"""Writes log lines from a thread of its own, so that a reader who stalls or goes takes nothing else along.

It must not lose a line while there is room, and must not wait for room: what is dropped is counted and told.
"""

import contextlib
import queue
import threading
from typing import BinaryIO, Final

ROOM_LINES: Final = 10_000
LAST_WORDS_SECONDS: Final = 1.0
_END: Final = b""


class LogPipe:
    """A stream for whole lines, in front of ``stream``."""

    def __init__(self, stream: BinaryIO, room_lines: int = ROOM_LINES) -> None:
        """Start the thread; at most ``room_lines`` wait for the reader."""
        self._stream = stream
        self._lines: queue.Queue[bytes] = queue.Queue(room_lines)
        self._dropped = 0
        self._thread = threading.Thread(target=self._pass_on, name="logs", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> int:
        """Take ``line``, or count it as dropped where the reader is too far behind."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._dropped += 1
        return len(line)

    def flush(self) -> None:
        """Nothing: whoever logs does not wait."""

    def isatty(self) -> bool:
        """Whether a person reads."""
        return self._stream.isatty()

    def close(self) -> None:
        """Give the reader a moment for what is left."""
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(_END)
        self._thread.join(LAST_WORDS_SECONDS)

    def _pass_on(self) -> None:
        while (line := self._lines.get()) != _END:
            dropped, self._dropped = self._dropped, 0
            if dropped:
                line = b'{"level":"warning","event":"log lines dropped","count":%d}\n%s' % (dropped, line)
            # A reader that has gone, or a full disk, is no reason to end: pods depend on this process.
            with contextlib.suppress(OSError, ValueError):
                self._stream.write(line)
                self._stream.flush()
