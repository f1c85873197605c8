"""A ring of files on disk, written by a thread of its own: the oldest goes when room is needed.

It must not hold anybody up: where the disk is too slow, what comes is dropped and counted. It must not know what
it writes, only that what follows a gap is of no use before a new file is begun.
"""

import queue
import re
import threading
from pathlib import Path
from typing import Final, NamedTuple

from structlog.typing import FilteringBoundLogger

from railside_proto.names import RECORDER_DIR

FILES: Final = 8
"""Of equal size, where the agent lives long: the ring loses an eighth at a time."""

MOST_FILES: Final = 64
"""Each start of the agent begins a file: one that starts again and again must keep what made it do so."""

MOST_WAITING: Final = 256
"""Batches of lines that may wait for the disk."""

_PATTERN: Final = "flight-*.jsonl"
_NAME: Final = re.compile(r"flight-\d{8}\.jsonl")


class _Batch(NamedTuple):
    lines: bytes
    file: int
    """Counts the files that were begun."""


class Ring:
    """The files in one folder."""

    def __init__(
        self, folder: Path, bytes_at_most: int, log: FilteringBoundLogger, *, most_waiting: int = MOST_WAITING
    ) -> None:
        """Keep ``bytes_at_most`` in ``folder``; nothing is touched before the first ``put``."""
        self._folder = folder
        self._bytes_at_most = bytes_at_most
        self._log = log
        self._waiting: queue.Queue[_Batch | threading.Event] = queue.Queue(most_waiting)
        self._begun = 0
        self._put_bytes = 0
        self._has_gap = True
        self._lost = 0
        """The last file of which the thread could not write something."""
        self._complained = False
        self._path: Path | None = None
        self._written = 0
        self.dropped = 0
        """Batches that the disk was too slow for."""
        threading.Thread(target=self._write_for_ever, name="recorder", daemon=True).start()

    @property
    def file_bytes(self) -> int:
        """How large a file may grow before another is begun."""
        return self._bytes_at_most // FILES

    @property
    def wants_a_new_file(self) -> bool:
        """Whether the present file is full, or lacks something: what is put next must stand for itself."""
        return self._has_gap or self._lost == self._begun or self._put_bytes >= self.file_bytes

    def put(self, lines: bytes, *, fresh: bool) -> None:
        """Have ``lines`` written, in a new file if ``fresh``."""
        batch = _Batch(lines, self._begun + fresh)
        try:
            self._waiting.put_nowait(batch)
        except queue.Full:
            self.dropped += 1
            self._has_gap = True
            return
        self._begun = batch.file
        self._has_gap = self._has_gap and not fresh
        self._put_bytes = len(lines) if fresh else self._put_bytes + len(lines)

    def flush(self, patience_seconds: float) -> bool:
        """Wait until all that was put is written, or for a while; whether it is. Blocks."""
        done = threading.Event()
        try:
            self._waiting.put(done, timeout=patience_seconds)
        except queue.Full:
            return False
        return done.wait(patience_seconds)

    # From here on in the thread

    def _write_for_ever(self) -> None:
        while True:
            job = self._waiting.get()
            if isinstance(job, threading.Event):
                job.set()
            elif job.file != self._lost:
                self._tried(job)

    def _tried(self, batch: _Batch) -> None:
        try:
            self._write(batch)
        except OSError as error:
            self._lost = batch.file
            if not self._complained:
                self._log.warning("the recorder could not write", detail=str(error))
            self._complained = True
            return
        if self._complained:
            self._log.info("the recorder writes again")
        self._complained = False

    def _write(self, batch: _Batch) -> None:
        if self._path is None or batch.file != self._written:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._path = self._next_path()
            self._written = batch.file
        self._make_room(self._path, len(batch.lines))
        with self._path.open("ab") as file:
            file.write(batch.lines)

    def _next_path(self) -> Path:
        files = _files(self._folder)
        number = int(files[-1].stem.rpartition("-")[2]) + 1 if files else 0
        return self._folder / f"flight-{number:08d}.jsonl"

    def _make_room(self, path: Path, size: int) -> None:
        """Drop the oldest files, as far as ``size`` bytes more in ``path`` ask for it."""
        own = size + (path.stat().st_size if path.exists() else 0)
        if own > self._bytes_at_most:
            raise OSError(f"{own} bytes in one file are more than it may keep")
        others = [(file, file.stat().st_size) for file in _files(self._folder) if file != path]
        while others and (own + sum(one for _, one in others) > self._bytes_at_most or len(others) >= MOST_FILES):
            others.pop(0)[0].unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    """Ours, oldest first; somebody's copy beside them is none of them."""
    return sorted(file for file in folder.glob(_PATTERN) if _NAME.fullmatch(file.name))


def recorded(folder: Path) -> bytes:
    """All lines that are kept in ``folder``, oldest first. Raises OSError."""
    # A file that was cut off ends in the middle of a line, which must not swallow the next file's first.
    return b"\n".join(file.read_bytes() for file in _files(folder))


def recordings(path: Path) -> list[Path]:
    """The files that a person means by ``path``, oldest first: a file, its folder, or the folder above that."""
    if path.is_file():
        return [path]
    return _files(path) or _files(path / Path(RECORDER_DIR).name)
