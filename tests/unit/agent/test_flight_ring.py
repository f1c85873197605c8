import threading
from pathlib import Path
from typing import cast

from structlog.typing import FilteringBoundLogger
from tests.unit.builders import LogLines

from railside_agent.flight_ring import MOST_FILES, Ring, recorded, recordings

_PATIENCE = 10.0


def _put(ring: Ring, lines: bytes) -> None:
    """As the recorder does: a new file where one is due."""
    ring.put(lines, fresh=ring.wants_a_new_file)
    assert ring.flush(_PATIENCE)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


class StuckLog:
    """A logger that holds up whoever complains: so its thread is as behind a disk that does not answer."""

    def __init__(self) -> None:
        self.reached, self.released = threading.Event(), threading.Event()

    def warning(self, _event: str, **_facts: object) -> None:
        self.reached.set()
        assert self.released.wait(_PATIENCE)

    def info(self, _event: str, **_facts: object) -> None:
        """A disk that is well again."""


def test_the_ring_keeps_so_many_bytes_and_loses_the_oldest(tmp_path: Path, written: LogLines) -> None:
    """A file is full at an eighth of the space, and the oldest files go for the newest."""
    ring = Ring(tmp_path, 800, written.log)
    for number in range(100):
        _put(ring, b"%049d\n" % number)
        assert sum(file.stat().st_size for file in _files(tmp_path)) <= 800
    assert [file.stat().st_size for file in _files(tmp_path)] == [100] * 8
    assert [int(line) for line in recorded(tmp_path).split()] == list(range(84, 100))


def test_starts_in_a_row_do_not_push_out_what_they_follow(tmp_path: Path, written: LogLines) -> None:
    """Each start begins a file, and a good many small ones are kept, but no endless number of them."""
    for number in range(MOST_FILES + 6):
        _put(Ring(tmp_path, 1 << 20, written.log), b"%d\n" % number)
    assert [int(line) for line in recorded(tmp_path).split()] == list(range(6, MOST_FILES + 6))
    assert (len(_files(tmp_path)), _files(tmp_path)[0].name) == (MOST_FILES, "flight-00000006.jsonl")


def test_a_disk_that_refuses_is_told_once_and_begun_anew_on(tmp_path: Path, written: LogLines) -> None:
    """What could not be written is a gap, behind which only a new file is begun, once the disk takes it."""
    folder = tmp_path / "recorder"
    folder.write_text("no folder")
    ring = Ring(folder, 800, written.log)
    _put(ring, b"lost\n")
    ring.put(b"lost, too\n", fresh=False)
    _put(ring, b"refused\n")
    assert (ring.wants_a_new_file, written.events) == (True, ["the recorder could not write"])
    folder.unlink()
    _put(ring, b"kept\n")
    assert (ring.wants_a_new_file, recorded(folder)) == (False, b"kept\n")
    assert written.events[1:] == ["the recorder writes again"]


def test_lines_behind_a_gap_are_not_written(tmp_path: Path) -> None:
    """Lines that were on their way when the disk refused those before them do not come into the file alone."""
    folder, log = tmp_path / "recorder", StuckLog()
    folder.write_text("no folder")
    ring = Ring(folder, 800, cast("FilteringBoundLogger", log))
    ring.put(b"lost\n", fresh=True)
    assert log.reached.wait(_PATIENCE)
    ring.put(b"rests on it\n", fresh=False)
    folder.unlink()
    log.released.set()
    assert ring.flush(_PATIENCE)
    assert not folder.exists()
    _put(ring, b"anew\n")
    assert recorded(folder) == b"anew\n"


def test_a_disk_that_is_too_slow_holds_nobody_up(tmp_path: Path) -> None:
    """When too much waits for the disk, what comes is dropped and counted, and a new file must be begun."""
    folder, log = tmp_path / "recorder", StuckLog()
    folder.write_text("no folder")
    ring = Ring(folder, 800, cast("FilteringBoundLogger", log), most_waiting=2)
    ring.put(b"stuck\n", fresh=True)
    assert log.reached.wait(_PATIENCE)
    for _ in range(5):
        ring.put(b"more\n", fresh=ring.wants_a_new_file)
    assert (ring.dropped, ring.wants_a_new_file, ring.flush(0.001)) == (3, True, False)
    folder.unlink()
    log.released.set()
    # The queue is empty by the time that a later line gets through.
    while not ring.flush(_PATIENCE):
        pass
    _put(ring, b"anew\n")
    assert recorded(folder).endswith(b"anew\n")
    assert not ring.wants_a_new_file


def test_more_at_once_than_is_to_be_kept_costs_nothing_else(tmp_path: Path, written: LogLines) -> None:
    """Lines that are larger than the whole ring are refused, and the files before them stay."""
    ring = Ring(tmp_path, 800, written.log)
    _put(ring, b"kept\n")
    _put(ring, b"x" * 801)
    assert (recorded(tmp_path), ring.wants_a_new_file) == (b"kept\n", True)
    assert written.events == ["the recorder could not write"]


def test_a_file_that_was_cut_off_swallows_no_line_of_the_next(tmp_path: Path, written: LogLines) -> None:
    """A file whose last line has no end is followed by the next file's first line all the same."""
    _put(Ring(tmp_path, 800, written.log), b"whole\ncut o")
    _put(Ring(tmp_path, 800, written.log), b"next\n")
    assert recorded(tmp_path).split() == [b"whole", b"cut", b"o", b"next"]


def test_somebodys_file_beside_the_recording_is_none_of_it(tmp_path: Path, written: LogLines) -> None:
    """A copy that a person left there is neither read, nor counted, nor deleted, nor stops the recorder."""
    copy = tmp_path / "flight-00000001 (copy).jsonl"
    copy.write_bytes(b"theirs\n" * 1000)
    (tmp_path / "flight-zz.jsonl").write_bytes(b"theirs\n")
    for number in range(20):
        _put(Ring(tmp_path, 800, written.log), b"%049d\n" % number)
    kept = [int(line) for line in recorded(tmp_path).split()]
    assert (kept[-1], copy.stat().st_size, written.events) == (19, 7000, [])


def test_nothing_is_recorded_where_nothing_was_kept(tmp_path: Path) -> None:
    """A folder that is not there holds no lines."""
    assert recorded(tmp_path / "nowhere") == b""


def test_a_recording_is_found_by_its_file_its_folder_and_the_folder_above(
    tmp_path: Path, written: LogLines
) -> None:
    """A person may name any of the three, and the files come oldest first; elsewhere there is none."""
    folder = tmp_path / "recorder"
    for number in range(2):
        _put(Ring(folder, 800, written.log), b"%d\n" % number)
    files = _files(folder)
    assert [recordings(folder), recordings(tmp_path), recordings(files[1])] == [files, files, [files[1]]]
    assert [recordings(tmp_path.parent), recordings(tmp_path / "nowhere")] == [[], []]
