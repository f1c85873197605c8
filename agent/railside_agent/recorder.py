"""Keeps the agent's last inputs and decisions, so that they can be decided again: a flight recorder.

Each file stands for itself, as the one before it may be gone. It must not hold anybody up, and must not decide
anything.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
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
from railside_agent.flight_ring import Ring
from railside_agent.seats import Books, Offer
from railside_agent.start_decision import Call, Enforced, StartDecision
from railside_proto.names import RECORDER_DIR


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader of the present file has of one pool."""

    books: Books
    lines: dict[str, SeatLine]


class Recorder:
    """The recording below one root. Lives on the event loop."""

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
        self._ring = Ring(root / RECORDER_DIR, bytes_at_most, log) if bytes_at_most else None
        self._began = began
        self._now = now
        self._news = News()
        self._kept: dict[str, _Kept] = {}
        self._room_for_notes = 0

    def listed(self, pool: str, evidence: Evidence, before: Books, after: Books, offer: Offer) -> None:
        """Keep that a list was made from ``evidence`` and the books ``before``, where anything in it is new."""
        if self._ring is None:
            return
        head = self._head(self._ring)
        kept = self._kept.get(pool)
        lines = seat_lines(offer)
        changed = differences(kept.lines if kept else {}, lines)
        news = tuple(self._news.of(evidence))
        if kept is not None and not (changed or news or after != kept.books):
            return
        self._kept[pool] = _Kept(books=after, lines=lines)
        made = ListMade(
            at=self._time(),
            pool=pool,
            facts=facts_of(evidence.situation),
            changed=changed,
            books=None if kept else before,
        )
        self._put(self._ring, head, (*news, made))

    def decided(
        self,
        pool: str,
        evidence: Evidence,
        books: Books,
        enforced: Enforced,
        call: Call,
        decision: StartDecision,
    ) -> None:
        """Keep what a ``call`` came to; it was decided with ``books``."""
        if self._ring is None:
            return
        head = self._head(self._ring)
        kept = self._kept.get(pool)
        binding, refusal = outcome_of(decision)
        made = StartMade(
            at=self._time(),
            pool=pool,
            facts=facts_of(evidence.situation),
            seats=decision.start.seats,
            enforced=enforced,
            binding=binding,
            refusal=refusal,
            call=call,
            books=None if kept is not None and kept.books == books else books,
        )
        self._put(self._ring, head, (*self._news.of(evidence), made))

    def note(self, what: str, **facts: object) -> None:
        """Keep something that decides nothing by itself.

        At most a quarter of each file is notes: a storm of them must not push out what was decided.
        """
        if self._ring is None:
            return
        head = self._head(self._ring)
        if self._room_for_notes <= 0:
            return
        note = Note(at=self._time(), what=what, facts=facts)
        self._room_for_notes -= len(write((note,)))
        last = Note(at=self._time(), what="no more notes in this file: there were too many")
        self._put(self._ring, head, (note,) if self._room_for_notes > 0 else (note, last))

    def flush(self, patience_seconds: float) -> bool:
        """Wait until all is on disk, or for a while; whether it is. Blocks."""
        return self._ring is None or self._ring.flush(patience_seconds)

    def _head(self, ring: Ring) -> tuple[Entry, ...]:
        """What a new file begins with, where one is due; nothing that was written before counts in it."""
        if not ring.wants_a_new_file:
            return ()
        self._news = News()
        self._kept.clear()
        self._room_for_notes = ring.file_bytes // 4
        return (msgspec.structs.replace(self._began(self._time()), dropped=ring.dropped),)

    def _put(self, ring: Ring, head: tuple[Entry, ...], entries: tuple[Entry, ...]) -> None:
        ring.put(write((*head, *entries)), fresh=bool(head))

    def _time(self) -> str:
        return self._now().isoformat(timespec="milliseconds")
