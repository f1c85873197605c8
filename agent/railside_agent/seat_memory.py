"""Remembers on disk which HCA each seat means, so that an agent's restart or a reboot changes no pod's HCA.

The kubelet keeps the ids of running pods over both. It must not decide which seats there are. All of it blocks.
"""

import contextlib
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated, Final

import msgspec
from structlog.typing import FilteringBoundLogger

from railside_agent.seats import Offer, OfferedSeat
from railside_proto.machine import PciAddress
from railside_proto.names import STATE_DIR
from railside_proto.pool import Pool, Seat

_VERSION: Final = 1


class _Remembered(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    seat: str
    numa_nodes: tuple[Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)], ...]
    hca: PciAddress


class _File(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The file's layout. Later versions may add fields: unknown ones are passed over."""

    version: int
    seats: tuple[_Remembered, ...]


class SeatMemory:
    """The file of one pool's seats."""

    def __init__(self, root: Path, pool: Pool, log: FilteringBoundLogger) -> None:
        """Keep the file below ``root``."""
        self._share = pool.share
        self._path = root / STATE_DIR / f"seats-{pool.name}.json"
        self._log = log
        self._written = b""
        self._complaint: tuple[str, type[Exception]] | None = None

    def recall(self) -> Offer | None:
        """The seats as last remembered, their health unknown; None at first, or where the file is no good."""
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._complain("the remembered seats could not be read", error)
            return None
        try:
            remembered = msgspec.json.decode(text, type=_File)
            _refuse_doubles(remembered, self._share)
        except (msgspec.MsgspecError, ValueError) as error:
            self._complain("the remembered seats make no sense; the file is kept as .bad", error)
            with contextlib.suppress(OSError):
                self._path.replace(self._path.with_suffix(".bad"))
            return None
        self._written = text
        return tuple(_offered(one) for one in remembered.seats)

    def remember(self, offer: Offer) -> bool:
        """Write our seats of ``offer`` down where they are new, whole or not at all; whether they are there.

        A disk that refuses is told, and nothing else changes.
        """
        seats = tuple(
            _Remembered(seat=one.seat.id, numa_nodes=one.seat.numa_nodes, hca=one.hca) for one in offer if one.hca
        )
        text = msgspec.json.format(msgspec.json.encode(_File(version=_VERSION, seats=seats))) + b"\n"
        if text == self._written:
            return True
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            _write_durably(self._path, text)
        except OSError as error:
            self._complain("the seats could not be remembered", error)
            return False
        self._written = text
        self._complaint = None
        return True

    def _complain(self, what: str, error: Exception) -> None:
        """Tell it once: a disk that refuses is asked again and again."""
        if (what, type(error)) != self._complaint:
            self._log.error(what, file=str(self._path), detail=str(error))
        self._complaint = (what, type(error))


def _refuse_doubles(remembered: _File, share: int) -> None:
    """Raises ValueError where an id stands twice, or an HCA more often than it may be shared."""
    ids = [one.seat for one in remembered.seats]
    hcas = Counter(one.hca for one in remembered.seats)
    if len(set(ids)) < len(ids) or any(count > share for count in hcas.values()):
        raise ValueError("a seat or an HCA stands there too often")


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


def _offered(one: _Remembered) -> OfferedSeat:
    return OfferedSeat(seat=Seat(id=one.seat, numa_nodes=one.numa_nodes), hca=one.hca)
