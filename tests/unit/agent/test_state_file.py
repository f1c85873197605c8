import json
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.situations import POOL, binding
from tests.unit.builders import LogLines

from railside_agent.seats import Books
from railside_agent.situation import Listed
from railside_agent.state_file import Remembered, StateFile
from railside_proto.pool import Mode, Pool
from railside_proto.record import TopologyPolicy

_LISTED = (
    Listed(id="any-s0", numa_nodes=(0, 1)),
    Listed(id="mlx5_7", numa_nodes=(65535,), held=True),
    Listed(id="n0-s0", numa_nodes=(0,), held=True),
)
_BOUND = (binding("p", n0_s0=1),)
_KNOWN = Remembered(
    mode=Mode.IB_SHARED_MULTI,
    policy=TopologyPolicy.RESTRICTED,
    books=Books(hinted=True, listed=_LISTED),
    bindings=_BOUND,
)


def _path(root: Path) -> Path:
    return root / "var/lib/railside/seats-infiniband-rdma.json"


def _write(root: Path, content: bytes) -> None:
    _path(root).parent.mkdir(parents=True)
    _path(root).write_bytes(content)


@pytest.fixture
def state(tmp_path: Path, written: LogLines) -> StateFile:
    return StateFile(tmp_path, POOL, written.log)


@pytest.fixture
def closed_folder(tmp_path: Path) -> Iterator[Path]:
    """Something that is no folder where the folder should be."""
    (tmp_path / "var/lib").mkdir(parents=True)
    folder = tmp_path / "var/lib/railside"
    folder.write_text("in the way")
    yield folder
    if folder.is_file():
        folder.unlink()


@pytest.mark.parametrize(
    "remembered",
    [
        pytest.param(_KNOWN, id="all"),
        pytest.param(Remembered(), id="nothing"),
        pytest.param(Remembered(mode=None, books=Books(hinted=False, listed=(Listed(id="any-s0"),))), id="bare"),
    ],
)
def test_the_next_run_knows_what_was_remembered(tmp_path: Path, written: LogLines, remembered: Remembered) -> None:
    """Mode, policy, hints and ids outlive the agent, a call and a reboot; the clocks of what is ill do not."""
    assert StateFile(tmp_path, POOL, written.log).remember(remembered)
    assert remembered == StateFile(tmp_path, POOL, written.log).recall()
    assert written.events == []


def test_clocks_and_courses_are_of_one_run(tmp_path: Path, written: LogLines, state: StateFile) -> None:
    """Seconds of a clock that begins anew with each boot are not written down."""
    unhealthy = msgspec.structs.replace(_LISTED[0], unhealthy_since=17.0)
    state.remember(Remembered(books=Books(hinted=True, listed=(unhealthy,))))
    assert StateFile(tmp_path, POOL, written.log).recall().books.listed == _LISTED[:1]


def test_what_a_killed_run_left_goes_at_the_next_writing(tmp_path: Path, state: StateFile) -> None:
    """A file that was being written when its agent was killed does not lie there for ever."""
    _write(tmp_path, b"")
    left = _path(tmp_path).with_name(f".{_path(tmp_path).name}.x1y2")
    left.write_bytes(b"{")
    state.remember(_KNOWN)
    assert [one.name for one in left.parent.iterdir()] == [_path(tmp_path).name]


def test_ids_of_any_length_are_read_again(tmp_path: Path, written: LogLines, state: StateFile) -> None:
    """Whatever another plugin called its devices, mode and hints outlive the agent beside it."""
    odd = (Listed(id="", held=True), Listed(id="x" * 300, numa_nodes=(1 << 17,), held=True))
    state.remember(Remembered(mode=Mode.IB_SHARED, books=Books(hinted=True, listed=odd)))
    again = StateFile(tmp_path, POOL, written.log).recall()
    assert (again.mode, again.books.listed, written.events) == (Mode.IB_SHARED, odd, [])


def test_at_first_nothing_is_remembered(state: StateFile, written: LogLines) -> None:
    """A node that never ran the agent has no file, and that is no news."""
    assert (state.recall(), written.events) == (Remembered(), [])


def test_each_pool_has_a_file(tmp_path: Path, written: LogLines, state: StateFile) -> None:
    """Two pools of one node do not overwrite each other."""
    other = StateFile(tmp_path, Pool(resource="example.com/roce"), written.log)
    state.remember(_KNOWN)
    other.remember(Remembered())
    names = sorted(path.name for path in _path(tmp_path).parent.iterdir())
    assert (names, _KNOWN) == (["seats-infiniband-rdma.json", "seats-roce.json"], state.recall())


def test_the_first_version_is_read(tmp_path: Path, state: StateFile) -> None:
    """An agent that comes after one whose seats meant HCAs lists all of its ids, with their hints (law 1)."""
    seats = [
        {"seat": "n0-s0", "numaNodes": [0], "hca": "0000:1a:00.0", "held": True},
        {"seat": "n0-s1", "numaNodes": [0], "hca": "0000:2b:00.0"},
    ]
    _write(tmp_path, json.dumps({"version": 1, "mode": "ib-shared", "seats": seats}).encode())
    listed = (Listed(id="n0-s0", numa_nodes=(0,), held=True), Listed(id="n0-s1", numa_nodes=(0,)))
    assert Remembered(mode=Mode.IB_SHARED, books=Books(hinted=True, listed=listed)) == state.recall()


def test_a_bare_list_of_the_first_version_stays_bare(tmp_path: Path, state: StateFile) -> None:
    """Where no seat of the first version had a hint, the list was bare."""
    _write(tmp_path, json.dumps({"version": 1, "seats": [{"seat": "any-s0", "hca": "x"}]}).encode())
    assert state.recall().books.hinted is False


def test_fields_of_later_versions_are_passed_over(tmp_path: Path, state: StateFile) -> None:
    """An agent that was rolled back reads what the newer one wrote."""
    content = {"version": 3, "seats": [{"seat": "n0-s0", "later": 1}], "hinted": False, "later": {}}
    _write(tmp_path, json.dumps(content).encode())
    assert Books(hinted=False, listed=(Listed(id="n0-s0"),)) == state.recall().books


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="torn"),
        pytest.param(b"\xff\x00", id="garbage"),
        pytest.param(b'{"version": 2}', id="no-seats"),
        pytest.param(b'{"version": 2, "seats": [{"name": "a"}]}', id="nameless"),
        pytest.param(b'{"version": 2, "seats": [{"seat": "a", "numaNodes": [-1]}]}', id="odd-node"),
        pytest.param(b'{"version": 2, "seats": [{"seat": "a"}, {"seat": "a"}]}', id="twice"),
        pytest.param(b'{"version": 2, "mode": "shared", "seats": []}', id="unknown-mode"),
        pytest.param(b'{"version": 2, "seats": [], "bindings": [{"seats": ["a"], "hcas": []}]}', id="unequal"),
    ],
)
def test_what_makes_no_sense_is_kept_for_people(
    tmp_path: Path, state: StateFile, written: LogLines, content: bytes
) -> None:
    """A file that cannot be understood is put aside as .bad and told; the agent starts from nothing (B-DP-45)."""
    _write(tmp_path, content)
    assert Remembered() == state.recall()
    assert (content, False) == (_path(tmp_path).with_suffix(".bad").read_bytes(), _path(tmp_path).exists())
    assert written.events == ["what was remembered makes no sense; the file is kept as .bad"]


def test_what_cannot_be_read_is_told(tmp_path: Path, state: StateFile, written: LogLines) -> None:
    """A folder in the file's place ends nothing (B-DP-45)."""
    _path(tmp_path).mkdir(parents=True)
    assert (state.recall(), written.events) == (Remembered(), ["what was remembered could not be read"])


def test_a_disk_that_refuses_is_told_once_and_asked_again(
    state: StateFile, written: LogLines, closed_folder: Path
) -> None:
    """While the disk refuses, that is told once; when it takes the state again, it is there."""
    refused = [state.remember(_KNOWN) for _ in range(3)]
    closed_folder.unlink()
    taken = state.remember(_KNOWN)
    assert (refused, taken, state.recall()) == ([False, False, False], True, _KNOWN)
    assert written.events == ["the state could not be remembered"]


def test_a_disk_that_refuses_again_is_told_again(tmp_path: Path, state: StateFile, written: LogLines) -> None:
    """A second trouble is news, though it is like the first."""
    folder = _path(tmp_path).parent
    for mode in (Mode.IB_SHARED, Mode.IB_SHARED_MULTI):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text("in the way")
        state.remember(Remembered(mode=mode))
        folder.unlink()
        state.remember(Remembered(mode=mode))
        (folder / _path(tmp_path).name).unlink()
        folder.rmdir()
    assert len(written.events) == 2


def test_what_is_the_same_is_not_written_again(tmp_path: Path, state: StateFile) -> None:
    """A state that did not change costs no write, also right after it was read."""
    state.remember(_KNOWN)
    inode = _path(tmp_path).stat().st_ino
    state.remember(_KNOWN)
    later = StateFile(tmp_path, POOL, LogLines().log)
    later.remember(later.recall())
    assert inode == _path(tmp_path).stat().st_ino


def test_a_write_is_whole_or_not_at_all(tmp_path: Path, state: StateFile) -> None:
    """The file is replaced by a new one and never written into; nothing else stays in its folder."""
    state.remember(_KNOWN)
    with _path(tmp_path).open("rb") as reader:
        state.remember(Remembered())
        before = reader.read()
    assert _KNOWN.mode is not None
    assert _KNOWN.mode.value.encode() in before
    assert [path.name for path in _path(tmp_path).parent.iterdir()] == [_path(tmp_path).name]


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, state: StateFile, written: LogLines) -> None:
    """Where the new file cannot be put in place, no half of it stays behind."""
    _path(tmp_path).mkdir(parents=True)
    (_path(tmp_path) / "in the way").touch()
    assert not state.remember(_KNOWN)
    assert os.listdir(_path(tmp_path).parent) == [_path(tmp_path).name]  # noqa: PTH208 -- names alone
    assert written.events == ["the state could not be remembered"]
