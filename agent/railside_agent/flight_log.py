"""What the agent's recorder keeps: its inputs and what it decided on them, as lines that can be decided again.

Inputs stand once, when they change; each decision stands behind the inputs that it rests on. It must not read or
write files.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from railside_agent.binding import Bound
from railside_agent.pool_rules import PoolRules
from railside_agent.raw_machine import RawMachine, RawPortState, with_port_states
from railside_agent.seats import Books, Offer
from railside_agent.situation import Situation
from railside_agent.start_decision import Call, StartDecision
from railside_agent.virtual_topology import TopologySource
from railside_proto.decoding import UNDECODABLE
from railside_proto.machine import PathClass, PciAddress
from railside_proto.pool import Binding
from railside_proto.reasons import Code

PortAnswers = dict[str, tuple[RawPortState, ...] | None]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What one decision rested on: as it was read, and as it was understood."""

    raw: RawMachine | None
    content: bytes | None
    """Of the kubelet's checkpoint."""
    situation: Situation


class Began(msgspec.Struct, frozen=True, kw_only=True, tag="began"):
    """The agent started, or a new file was begun: what was before it is not needed."""

    version: str
    topology: TopologySource
    pools: tuple[PoolRules, ...]
    at: str
    dropped: int = 0
    """How many batches of lines the disk was too slow for since the agent's start: what they said is missing."""


class TreeSeen(msgspec.Struct, frozen=True, kw_only=True, tag="tree"):
    """The machine's tree, as it was read; ports apart."""

    raw: RawMachine | None


class PortsSeen(msgspec.Struct, frozen=True, kw_only=True, tag="ports"):
    """What the cards answered."""

    states: PortAnswers


class CheckpointSeen(msgspec.Struct, frozen=True, kw_only=True, tag="checkpoint"):
    """The kubelet's checkpoint, as it was read."""

    content: bytes | None


class Note(msgspec.Struct, frozen=True, kw_only=True, tag="note"):
    """Something that happened and decides nothing by itself."""

    at: str
    what: str
    facts: dict[str, object] = {}


class SeatLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One seat of a list."""

    healthy: bool
    nodes: tuple[int, ...] = ()
    held: bool = False
    hca: PciAddress | None = None


class ListMade(msgspec.Struct, frozen=True, kw_only=True, tag="list"):
    """A list was made."""

    at: str
    pool: str
    facts: Situation
    """Without machine and checkpoint, which stand before it."""
    changed: dict[str, SeatLine | None]
    """Seats that are other than in the list before; None for those that left."""
    books: Books | None = None
    """What the list was made from, in the first of a file; after that, what the list before left."""


class StartMade(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """A container's start was decided."""

    at: str
    pool: str
    facts: Situation
    seats: tuple[str, ...]
    enforced: dict[str, PathClass] = {}
    binding: Binding | None = None
    refusal: Code | None = None
    call: Call = Call.START
    books: Books | None = None
    """What it was decided with, where that is not what the list before left: another may have been made since."""


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """A line that is none of these."""

    line: int
    """Counted from 1."""
    cut: bool
    """Whether the text ends in it, without a line's end: the rest was never written, or never copied."""


Entry = Began | TreeSeen | PortsSeen | CheckpointSeen | Note | ListMade | StartMade

_DECODER = msgspec.json.Decoder(Entry)


def seat_lines(offer: Offer) -> dict[str, SeatLine]:
    """A list as it is kept."""
    return {
        one.seat.id: SeatLine(healthy=one.healthy, nodes=one.seat.numa_nodes, held=one.held, hca=one.hca)
        for one in offer.seats
    }


def differences(before: Mapping[str, SeatLine], after: Mapping[str, SeatLine]) -> dict[str, SeatLine | None]:
    """What makes ``after`` of ``before``."""
    gone: dict[str, SeatLine | None] = dict.fromkeys(before.keys() - after.keys())
    return gone | {name: line for name, line in after.items() if before.get(name) != line}


def outcome_of(decision: StartDecision) -> tuple[Binding | None, Code | None]:
    """A start's outcome as it is kept."""
    if isinstance(decision.outcome, Bound):
        return decision.outcome.binding, None
    return None, decision.outcome.reason.code


class Inputs:
    """The inputs as of one line, put together again."""

    def __init__(self) -> None:
        self._tree: RawMachine | None = None
        self._ports: PortAnswers = {}
        self.content: bytes | None = None

    def take(self, entry: TreeSeen | PortsSeen | CheckpointSeen) -> None:
        """Note a change."""
        match entry:
            case TreeSeen(raw=raw):
                self._tree = raw
            case PortsSeen(states=states):
                self._ports = states
            case CheckpointSeen(content=content):
                self.content = content

    @property
    def raw(self) -> RawMachine | None:
        """The machine as it was read."""
        return None if self._tree is None else with_port_states(self._tree, self._ports)


class News:
    """Which inputs are news since the last decision that was kept."""

    def __init__(self) -> None:
        self._raw: RawMachine | None = None
        self._tree: RawMachine | None = None
        self._ports: PortAnswers | None = None
        self._content: bytes | None = None
        self._first = True

    def of(self, evidence: Evidence) -> Iterator[TreeSeen | PortsSeen | CheckpointSeen]:
        """The lines that must stand before a decision on ``evidence``."""
        if self._first or evidence.raw is not self._raw:
            # Most decisions rest on the same look, and a tree is large to compare.
            yield from self._of_the_machine(evidence.raw)
        if self._first or evidence.content != self._content:
            yield CheckpointSeen(content=evidence.content)
        self._raw, self._content, self._first = evidence.raw, evidence.content, False

    def _of_the_machine(self, raw: RawMachine | None) -> Iterator[TreeSeen | PortsSeen]:
        ports = {} if raw is None else {one.name: one.port_states for one in raw.rdma_devices}
        tree = None if raw is None else with_port_states(raw, {})
        if self._first or tree != self._tree:
            yield TreeSeen(raw=tree)
        if self._first or ports != self._ports:
            yield PortsSeen(states=ports)
        self._tree, self._ports = tree, ports


def facts_of(situation: Situation) -> Situation:
    """``situation`` without what stands in lines of its own."""
    return msgspec.structs.replace(situation, machine=None, checkpoint=None)


def write(entries: Iterable[Entry]) -> bytes:
    """The lines of ``entries``."""
    return b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)


def read(text: bytes) -> Iterator[Entry]:
    """The entries of ``text``, as far as they can be decided again."""
    return (one for one in read_all(text) if not isinstance(one, Unreadable))


def read_all(text: bytes) -> Iterator[Entry | Unreadable]:
    """The entries of ``text``, and in their places the lines that make no sense.

    What follows such a line, as a power failure or a full disk cuts it, is passed over up to the next beginning:
    it would rest on what is missing.
    """
    whole = False
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            entry = _DECODER.decode(line)
        except UNDECODABLE:
            whole = False
            yield Unreadable(line=number, cut=number == len(lines) and not text.endswith(b"\n"))
            continue
        whole = whole or isinstance(entry, Began)
        if whole:
            yield entry
