import contextlib
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.unit.builders import LogLines, hca, machine, port

from railside_agent.seat_memory import SeatMemory
from railside_agent.seats import Offer, offer
from railside_proto.machine import PortState
from railside_proto.pool import Pool


@contextlib.contextmanager
def limited_file_size(size_bytes: int) -> Iterator[None]:
    """No file of this process may grow beyond: a full disk that needs no disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


_FILE = "var/lib/railside/seats-infiniband-rdma.json"
_OFFER = offer(machine(hca(1), hca(2, None)), Pool())


def _memory(root: Path, written: LogLines) -> SeatMemory:
    return SeatMemory(root, Pool(), written.log)


def test_what_is_remembered_is_recalled(tmp_path: Path, written: LogLines) -> None:
    """Ids, hints and HCAs outlive the agent (B-DP-23)."""
    _memory(tmp_path, written).remember(_OFFER)
    assert (_memory(tmp_path, written).recall(), written.events) == (_OFFER, [])


def test_health_is_not_remembered(tmp_path: Path, written: LogLines) -> None:
    """Health is of the moment, so it is not written down (B-DP-38)."""
    ill = offer(machine(hca(1, ports=(port(PortState.DOWN),))), Pool())
    _memory(tmp_path, written).remember(ill)
    assert [seat.illness for seat in _memory(tmp_path, written).recall() or ()] == [None]


def test_a_reboot_changes_no_id(tmp_path: Path, written: LogLines) -> None:
    """After a reboot with other names and an HCA more, every seat means the HCA it meant (B-DP-33)."""
    _memory(tmp_path, written).remember(offer(machine(hca(2), hca(3)), Pool()))
    after = offer(
        machine(hca(1), hca(2, name="mlx5_9"), hca(3)), Pool(), _memory(tmp_path, written).recall() or ()
    )
    expected = {"n0-s0": hca(2).address, "n0-s1": hca(3).address, "n0-s2": hca(1).address}
    assert expected == {seat.seat.id: seat.hca for seat in after}


def test_the_first_start_remembers_nothing(tmp_path: Path, written: LogLines) -> None:
    """A missing file is the first start, and nothing to complain of."""
    assert (_memory(tmp_path, written).recall(), written.events) == (None, [])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"seat": 1}',
        b'[{"seat": "n0-s0"}]',
        b"\xff\xfe",
        b"null",
        b'{"version": 1, "seats": [{"seat": "a", "numaNodes": [9223372036854775808], "hca": "x"}]}',
        pytest.param(
            b'{"version": 1, "seats": [{"seat": "a", "numaNodes": [], "hca": "x"},'
            b' {"seat": "b", "numaNodes": [], "hca": "x"}]}',
            id="one-hca-twice",
        ),
        pytest.param(
            b'{"version": 1, "seats": [{"seat": "a", "numaNodes": [], "hca": "x"},'
            b' {"seat": "a", "numaNodes": [], "hca": "y"}]}',
            id="one-seat-twice",
        ),
    ],
)
def test_a_file_that_makes_no_sense_is_told_once(tmp_path: Path, written: LogLines, content: bytes) -> None:
    """A corrupt file is left aside with one line, and the agent starts."""
    file = tmp_path / _FILE
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    assert _memory(tmp_path, written).recall() is None
    assert written.events == ["the remembered seats make no sense; the file is kept as .bad"]
    assert content == file.with_suffix(".bad").read_bytes()


def test_a_file_that_cannot_be_read_is_told_once(tmp_path: Path, written: LogLines) -> None:
    """Something else in the file's place is told, and the agent starts."""
    (tmp_path / _FILE).mkdir(parents=True)
    assert _memory(tmp_path, written).recall() is None
    assert written.events == ["the remembered seats could not be read"]


def test_a_disk_that_refuses_is_told(tmp_path: Path, written: LogLines) -> None:
    """A folder that cannot be made is told and harms nobody."""
    (tmp_path / "var").write_text("no folder")
    _memory(tmp_path, written).remember(_OFFER)
    assert written.events == ["the seats could not be remembered"]


def test_nothing_is_written_where_nothing_is_new(tmp_path: Path, written: LogLines) -> None:
    """The same seats are not written again."""
    memory = _memory(tmp_path, written)
    memory.remember(_OFFER)
    (tmp_path / _FILE).unlink()
    memory.remember(_OFFER)
    assert not (tmp_path / _FILE).exists()


@pytest.mark.parametrize("seats", [(), _OFFER])
def test_the_file_is_json_and_alone(tmp_path: Path, written: LogLines, seats: Offer) -> None:
    """The file is whole JSON, and nothing half written lies beside it."""
    _memory(tmp_path, written).remember(seats)
    (file,) = (tmp_path / _FILE).parent.iterdir()
    written_down = msgspec.json.decode(file.read_bytes())
    assert [seat.seat.id for seat in seats] == [one["seat"] for one in written_down["seats"]]


def test_a_later_version_may_say_more(tmp_path: Path, written: LogLines) -> None:
    """Facts that a later agent adds are passed over when an older one comes back."""
    _memory(tmp_path, written).remember(_OFFER)
    file = tmp_path / _FILE
    later = msgspec.json.decode(file.read_bytes())
    later["seats"][0]["guid"] = "5c25:7303:00a1:0001"
    file.write_bytes(msgspec.json.encode({**later, "version": 2}))
    assert _memory(tmp_path, written).recall() == _OFFER


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, written: LogLines) -> None:
    """A write that fails keeps the old file whole, and no half-written one beside it."""
    memory = _memory(tmp_path, written)
    memory.remember(_OFFER)
    file = tmp_path / _FILE
    before = file.read_bytes()
    with limited_file_size(16):
        assert [memory.remember(offer(machine(hca(3)), Pool())) for _ in range(3)] == [False] * 3
    assert ([file], before) == (list(file.parent.iterdir()), file.read_bytes())
    assert written.events == ["the seats could not be remembered"]
