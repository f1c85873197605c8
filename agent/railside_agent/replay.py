"""Decides again what the recorder kept, and compares: so a bug from the field becomes a test at a desk.

It must not read files, and must not decide anything by itself: the same core does that runs on the node.
"""

from collections.abc import Iterable, Iterator

import msgspec

from railside_agent.discovery import discover
from railside_agent.flight_log import (
    Began,
    CheckpointSeen,
    Entry,
    Inputs,
    ListMade,
    Note,
    PortsSeen,
    SeatLine,
    StartMade,
    TreeSeen,
    outcome_of,
    seat_lines,
)
from railside_agent.holders import read_checkpoint
from railside_agent.seats import Books, offer
from railside_agent.situation import Situation
from railside_agent.start_decision import decide
from railside_agent.virtual_topology import TopologySource


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """One decision, as it was kept and as it comes out now."""

    at: str
    pool: str
    what: str
    """What was decided, in short."""
    differences: tuple[str, ...] = ()
    """Where the two are not the same."""


def replay(entries: Iterable[Entry]) -> Iterator[Replayed | Note | Began]:
    """Every decision of ``entries``, which begin with a ``Began``, once more, and the notes in between."""
    desk = _Desk()
    for entry in entries:
        match entry:
            case Began():
                desk = _Desk(entry)
                yield entry
            case Note():
                yield entry
            case TreeSeen() | PortsSeen() | CheckpointSeen():
                desk.inputs.take(entry)
            case ListMade():
                yield desk.list_again(entry)
            case StartMade():
                yield desk.start_again(entry)


class _Desk:
    def __init__(self, began: Began | None = None) -> None:
        self.inputs = Inputs()
        self._topology = began.topology if began else TopologySource.AUTO
        self._pools = {one.pool.name: one for one in (began.pools if began else ())}
        self._books: dict[str, Books] = {}
        self._kept: dict[str, dict[str, SeatLine]] = {}

    def list_again(self, entry: ListMade) -> Replayed:
        rules = self._pools[entry.pool]
        before = entry.books or self._books.get(entry.pool, Books())
        self._books[entry.pool], made = offer(self._situation(entry.facts), before, rules.pool, rules.rules)
        kept = {} if entry.books is not None else self._kept.get(entry.pool, {})
        kept = {name: line for name, line in {**kept, **entry.changed}.items() if line is not None}
        self._kept[entry.pool] = kept
        now = seat_lines(made)
        names = sorted(name for name in kept.keys() | now.keys() if kept.get(name) != now.get(name))
        return Replayed(
            at=entry.at,
            pool=entry.pool,
            what=_list_in_short(now),
            differences=tuple(f"{name} was {_seat(kept.get(name))}, is {_seat(now.get(name))}" for name in names),
        )

    def start_again(self, entry: StartMade) -> Replayed:
        rules = self._pools[entry.pool]
        books = entry.books or self._books.get(entry.pool, Books())
        situation = self._situation(entry.facts)
        decision = decide(
            entry.call, entry.seats, situation, books, rules.pool, rules.rules, enforced=entry.enforced
        )
        binding, refusal = outcome_of(decision)
        was = _outcome(entry.binding.hcas if entry.binding else (), entry.refusal)
        now = _outcome(binding.hcas if binding else (), refusal)
        return Replayed(
            at=entry.at,
            pool=entry.pool,
            what=f"start of {', '.join(entry.seats)}: {now}",
            differences=() if (binding, refusal) == (entry.binding, entry.refusal) else (f"was {was}, is {now}",),
        )

    def _situation(self, facts: Situation) -> Situation:
        raw, content = self.inputs.raw, self.inputs.content
        selectors = tuple(one.pool.selector for one in self._pools.values())
        return msgspec.structs.replace(
            facts,
            machine=None if raw is None else discover(raw, selectors, topology=self._topology),
            checkpoint=None if content is None or facts.doubtful else read_checkpoint(content),
        )


def _list_in_short(lines: dict[str, SeatLine]) -> str:
    healthy = sum(line.healthy for line in lines.values())
    held = sum(line.held for line in lines.values())
    return f"list of {len(lines)} seats, {healthy} healthy, {held} held"


def _seat(line: SeatLine | None) -> str:
    if line is None:
        return "not listed"
    health = "healthy" if line.healthy else "unhealthy"
    return f"{health}, held{f', {line.hca}' if line.hca else ''}" if line.held else f"{health}, free"


def _outcome(hcas: Iterable[str], refusal: str | None) -> str:
    return f"refused ({refusal})" if refusal else ", ".join(hcas)
