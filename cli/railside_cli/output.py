"""What the commands print, on its way to stdout: it tells that it could not be written from all other failures.

It must not decide how the program ends.
"""

from typing import Any, TextIO


class OutputError(Exception):
    """Raised by whoever prints, where stdout takes no more. Only ``main`` catches it, and ends the program."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.reader_gone = isinstance(error, BrokenPipeError)
        """Whether the reader has seen enough, which is no failure."""


class Output:
    """A text stream that is ``stream`` but for its errors."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write ``text``. Raises OutputError."""
        try:
            return self._stream.write(text)
        except OSError as error:
            raise OutputError(error) from error

    def flush(self) -> None:
        """Have all of it written. Raises OutputError."""
        try:
            self._stream.flush()
        except OSError as error:
            raise OutputError(error) from error

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- whatever the stream has
        return getattr(self._stream, name)
