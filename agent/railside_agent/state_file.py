"""Remembers on disk what must outlive the agent: mode and policy in force, and which ids the kubelet was shown.

What is held stands in the kubelet's checkpoint, and what is bound lies with the containers' directories; here is a
copy of it, for containers that run on though their directory was lost. It must not decide anything. All of it
blocks.
"""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Annotated, Final

import msgspec
from structlog.typing import FilteringBoundLogger

from railside_agent.seats import Books
from railside_agent.situation import Listed
from railside_agent.whole_files import read_whole
from railside_proto.decoding import UNDECODABLE
from railside_proto.names import STATE_DIR
from railside_proto.pool import Binding, Mode, Pool
from railside_proto.record import TopologyPolicy

_VERSION: Final = 2
_FIRST_VERSION: Final = 1
"""It held a seat's HCA, which is chosen at each start now, under the names seat and hca."""


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What the file tells."""

    mode: Mode | None = None
    policy: TopologyPolicy | None = None
    """The kubelet's, as it told it last: the first list needs it before anybody can be asked."""
    books: Books = Books()
    bindings: tuple[Binding, ...] = ()
    """Of an earlier boot, too: a pod that lives over it starts on the HCAs that it had, by whatever names."""


_Node = Annotated[int, msgspec.Meta(ge=0)]


class _Seat(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    seat: str
    """Whatever the kubelet's checkpoint calls it: what was written must be read again."""
    numa_nodes: tuple[_Node, ...] = ()
    held: bool = False


class _File(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The file's layout. Later versions may add fields: unknown ones are passed over."""

    version: int
    seats: tuple[_Seat, ...]
    mode: Mode | None = None
    hinted: bool | None = None
    policy: TopologyPolicy | None = None
    bindings: tuple[Binding, ...] = ()


class StateFile:
    """The file of one pool."""

    def __init__(self, root: Path, pool: Pool, log: FilteringBoundLogger) -> None:
        """Keep the file below ``root``."""
        self._path = root / STATE_DIR / f"seats-{pool.name}.json"
        self._log = log
        self._written = b""
        self._swept = False
        self._complaint: tuple[str, type[Exception]] | None = None

    def recall(self) -> Remembered:
        """What was last remembered; nothing at first, or where the file is no good."""
        try:
            text = read_whole(self._path)
        except FileNotFoundError:
            return Remembered()
        except OSError as error:
            self._complain("what was remembered could not be read", error)
            return Remembered()
        try:
            remembered = _understood(msgspec.json.decode(text, type=_File))
        except (*UNDECODABLE, ValueError) as error:
            self._complain("what was remembered makes no sense; the file is kept as .bad", error)
            with contextlib.suppress(OSError):
                self._path.replace(self._path.with_suffix(".bad"))
            return Remembered()
        self._written = text
        return remembered

    def remember(self, remembered: Remembered) -> bool:
        """Write it down where it is new, whole or not at all; whether it is there. A disk that refuses is told."""
        text = _text(remembered)
        if text == self._written:
            return True
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not self._swept:
                _sweep(self._path)
                self._swept = True
            _write_durably(self._path, text)
        except OSError as error:
            self._complain("the state could not be remembered", error)
            return False
        self._written = text
        self._complaint = None
        return True

    def _complain(self, what: str, error: Exception) -> None:
        """Tell it once: a disk that refuses is asked again and again."""
        if (what, type(error)) != self._complaint:
            self._log.error(what, file=str(self._path), detail=str(error))
        self._complaint = (what, type(error))


def _understood(file: _File) -> Remembered:
    """Raises ValueError where an id stands twice, or a binding is not whole."""
    ids = [one.seat for one in file.seats]
    if len(set(ids)) < len(ids):
        raise ValueError("a seat stands there twice")
    if any(len(one.seats) != len(one.hcas) for one in file.bindings):
        raise ValueError("a binding has not one HCA for each seat")
    listed = tuple(Listed(id=one.seat, numa_nodes=one.numa_nodes, held=one.held) for one in file.seats)
    hinted = any(one.numa_nodes for one in listed) if file.version == _FIRST_VERSION else file.hinted
    books = Books(hinted=hinted, listed=listed)
    return Remembered(mode=file.mode, policy=file.policy, books=books, bindings=file.bindings)


def _text(remembered: Remembered) -> bytes:
    seats = tuple(_Seat(seat=one.id, numa_nodes=one.numa_nodes, held=one.held) for one in remembered.books.listed)
    file = _File(
        version=_VERSION,
        seats=seats,
        mode=remembered.mode,
        hinted=remembered.books.hinted,
        policy=remembered.policy,
        bindings=remembered.bindings,
    )
    return msgspec.json.format(msgspec.json.encode(file)) + b"\n"


def _sweep(path: Path) -> None:
    """Take away what a run that was killed while it wrote has left. Raises OSError."""
    for left in path.parent.glob(f".{path.name}.*"):
        left.unlink(missing_ok=True)


def _write_durably(path: Path, text: bytes) -> None:
    """Replace ``path`` by ``text`` so that a power cut leaves the one or the other. Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
