"""Keeps the agent's last inputs and decisions on disk, in a ring of files: a flight recorder.

It must not hold anybody up: lines are written in a thread, and where the disk is too slow they are dropped and
counted. Each file stands for itself, as the one before it may be gone.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

from railside_agent.flight_log import (
    Began,
    Entry,
    Evidence,
    ListMade,
    News,
    Note,
    SeatLine,
    StartMade,
    differences,
    facts_of,
    outcome_of,
    seat_lines,
    write,
)
from railside_agent.seats import Books, Offer
from railside_agent.start_decision import Enforced, StartDecision
from railside_proto.names import RECORDER_DIR

FILES: Final = 8
"""Of equal size: the ring loses an eighth at a time."""

MOST_WAITING: Final = 256
"""Batches of lines that may wait for the disk."""

_PATTERN: Final = "flight-*.jsonl"


class Recorder:
    """The ring below one root."""

    def __init__(
        self,
        root: Path,
        *,
        bytes_at_most: int,
        began: Callable[[str], Began],
        log: FilteringBoundLogger,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Keep ``bytes_at_most``, nothing for 0; ``began`` is the head of each file, given the time."""
        self._ring = _Ring(root / RECORDER_DIR, bytes_at_most // FILES, log) if bytes_at_most else None
        self._began = began
        self._now = now
        self._news = News()
        self._lines: dict[str, dict[str, SeatLine]] = {}

    @property
    def dropped(self) -> int:
        """How many batches the disk was too slow for."""
        return self._ring.dropped if self._ring else 0

    def listed(self, pool: str, evidence: Evidence, books: Books, offer: Offer) -> None:
        """Keep that the list of ``pool`` was made from ``evidence`` and ``books``, where anything in it is new."""
        if self._ring is None:
            return
        fresh = self._ring.wants_a_new_file
        if fresh:
            self._start_over()
        first = pool not in self._lines
        lines = seat_lines(offer)
        changed = differences(self._lines.get(pool, {}), lines)
        news = tuple(self._news.of(evidence))
        if not (fresh or first or changed or news):
            return
        self._lines[pool] = lines
        made = ListMade(
            at=self._time(),
            pool=pool,
            facts=facts_of(evidence.situation),
            changed=changed,
            books=books if first else None,
        )
        self._put(self._head(fresh=fresh), news, (made,), fresh=fresh)

    def started(
        self,
        pool: str,
        evidence: Evidence,
        enforced: Enforced,
        decision: StartDecision,
        *,
        dealt: bool = False,
    ) -> None:
        """Keep what a start came to, or a dealing that decides for all starts."""
        if self._ring is None or self._ring.is_broken or pool not in self._lines:
            return
        binding, refusal = outcome_of(decision)
        made = StartMade(
            at=self._time(),
            pool=pool,
            facts=facts_of(evidence.situation),
            seats=decision.start.seats,
            enforced=enforced,
            binding=binding,
            refusal=refusal,
            dealt=dealt,
        )
        self._put((), tuple(self._news.of(evidence)), (made,))

    def note(self, what: str, **facts: object) -> None:
        """Keep something that decides nothing by itself."""
        if self._ring is not None:
            self._put((), (), (Note(at=self._time(), what=what, facts=facts),))

    def _start_over(self) -> None:
        self._news = News()
        self._lines.clear()

    def _head(self, *, fresh: bool) -> tuple[Entry, ...]:
        return (self._began(self._time()),) if fresh else ()

    def _put(self, *parts: tuple[Entry, ...], fresh: bool = False) -> None:
        if self._ring is not None:
            self._ring.put(write(_chained(parts)), fresh=fresh)

    def _time(self) -> str:
        return self._now().isoformat(timespec="milliseconds")


def _chained(parts: tuple[tuple[Entry, ...], ...]) -> Iterator[Entry]:
    for part in parts:
        yield from part


class _Ring:
    """The files, written by a thread of their own."""

    def __init__(self, folder: Path, file_bytes: int, log: FilteringBoundLogger) -> None:
        self._folder = folder
        self._file_bytes = file_bytes
        self._log = log
        self._waiting: queue.Queue[tuple[bytes, bool]] = queue.Queue(MOST_WAITING)
        self._put_bytes = 0
        self._complained = False
        self._file: Path | None = None
        self.wants_a_new_file = True
        self.is_broken = False
        """Whether lines were dropped since the present file was begun."""
        self.dropped = 0
        threading.Thread(target=self._write_for_ever, name="recorder", daemon=True).start()

    def put(self, lines: bytes, *, fresh: bool) -> None:
        """Have ``lines`` written, in a new file if ``fresh``."""
        try:
            self._waiting.put_nowait((lines, fresh))
        except queue.Full:
            self.dropped += 1
            # What follows would rest on lines that are missing.
            self.is_broken = self.wants_a_new_file = True
            return
        self.is_broken = False if fresh else self.is_broken
        self._put_bytes = len(lines) if fresh else self._put_bytes + len(lines)
        self.wants_a_new_file = self.is_broken or self._put_bytes >= self._file_bytes

    def _write_for_ever(self) -> None:
        while True:
            lines, fresh = self._waiting.get()
            try:
                self._write(lines, fresh=fresh)
                self._complained = False
            except OSError as error:
                if not self._complained:
                    self._log.warning("the recorder could not write", detail=str(error))
                self._complained = True

    def _write(self, lines: bytes, *, fresh: bool) -> None:
        if fresh or self._file is None:
            self._file = self._next_file()
        with self._file.open("ab") as file:
            file.write(lines)

    def _next_file(self) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        files = sorted(self._folder.glob(_PATTERN))
        for old in files[: max(0, len(files) - FILES + 1)]:
            old.unlink(missing_ok=True)
        number = int(files[-1].stem.rpartition("-")[2]) + 1 if files else 0
        return self._folder / f"flight-{number:08d}.jsonl"


def recorded(folder: Path) -> bytes:
    """All lines that are kept in ``folder``, oldest first. Raises OSError."""
    return b"".join(file.read_bytes() for file in sorted(folder.glob(_PATTERN)))
