"""Remembers on disk which HCA each seat means, so that an agent's restart or a reboot changes no pod's HCA.

The kubelet keeps the ids of running pods over both. It must not decide which seats there are.
"""

import tempfile
from pathlib import Path

import msgspec
from structlog.typing import FilteringBoundLogger

from railside_agent.seats import Offer, OfferedSeat
from railside_proto.machine import PciAddress
from railside_proto.names import STATE_DIR
from railside_proto.pool import Pool, Seat


class _Remembered(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    seat: str
    numa_nodes: tuple[int, ...]
    hca: PciAddress


class SeatMemory:
    """The file of one pool's seats. All methods block."""

    def __init__(self, root: Path, pool: Pool, log: FilteringBoundLogger) -> None:
        """Keep the file below ``root``."""
        self._file = root / STATE_DIR / f"seats-{pool.name}.json"
        self._log = log
        self._written = b""

    def recall(self) -> Offer:
        """The seats as last remembered, their health unknown; none at first, or where the file is no good."""
        try:
            text = self._file.read_bytes()
        except FileNotFoundError:
            return ()
        except OSError as error:
            self._complain("the remembered seats could not be read", error)
            return ()
        try:
            remembered = msgspec.json.decode(text, type=tuple[_Remembered, ...])
        except msgspec.MsgspecError as error:
            self._complain("the remembered seats make no sense and are left aside", error)
            return ()
        return tuple(_offered(one) for one in remembered)

    def remember(self, offer: Offer) -> None:
        """Write ``offer`` down where it is new, whole or not at all; a disk that refuses is told, no more."""
        remembered = [_Remembered(seat=one.seat.id, numa_nodes=one.seat.numa_nodes, hca=one.hca) for one in offer]
        text = msgspec.json.format(msgspec.json.encode(remembered)) + b"\n"
        if text == self._written:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._file.parent, delete=False) as fresh:
                fresh.write(text)
            Path(fresh.name).replace(self._file)
            self._written = text
        except OSError as error:
            self._complain("the seats could not be remembered", error)

    def _complain(self, what: str, error: Exception) -> None:
        self._log.error(what, file=str(self._file), detail=str(error))


def _offered(one: _Remembered) -> OfferedSeat:
    return OfferedSeat(seat=Seat(id=one.seat, numa_nodes=one.numa_nodes), hca=one.hca)
