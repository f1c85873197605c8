import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from railside_agent.tree_files import (
    LONGEST_TEXT_BYTES,
    folders_in,
    link_target_name,
    link_text,
    names_in,
    read_regular,
    read_text,
    top_of,
)


@pytest.mark.parametrize(("root", "top"), [("/", ""), ("/host", "/host"), ("machine", "machine")])
def test_paths_of_a_tree(root: str, top: str) -> None:
    """Below the host's own root no path begins with two slashes, which what plays a machine does not know."""
    assert top_of(Path(root)) == top


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"4: ACTIVE\n", "4: ACTIVE", id="usual"),
        pytest.param(b"\nInfiniBand\n\n", "InfiniBand", id="blank-lines"),
        pytest.param(b"", "", id="empty"),
        pytest.param(b"\xff\xfe\0", "\ufffd\ufffd", id="not-text"),
        pytest.param(b"x" * 10_000_000, "x" * LONGEST_TEXT_BYTES, id="huge"),
    ],
)
def test_read_text(tmp_path: Path, content: bytes, expected: str) -> None:
    """Any content is text, at most a page of it (B-DP-56)."""
    (tmp_path / "file").write_bytes(content)
    assert expected == read_text(str(tmp_path / "file"))


def test_a_pipe_does_not_hang_the_reader(tmp_path: Path) -> None:
    """A FIFO that nobody writes to is an empty file."""
    os.mkfifo(tmp_path / "pipe")
    assert read_text(str(tmp_path / "pipe")) == ""


def test_a_folder_or_nothing_is_none(tmp_path: Path) -> None:
    """What cannot be read is None."""
    (tmp_path / "loop").symlink_to("loop")
    assert [read_text(str(path)) for path in (tmp_path, tmp_path / "absent", tmp_path / "loop")] == [None] * 3


@pytest.mark.parametrize(("size", "is_read"), [(0, True), (99_999, True), (100_000, True), (100_001, False)])
def test_a_regular_file_is_read_whole_or_not_at_all(tmp_path: Path, size: int, *, is_read: bool) -> None:
    """Half of a file would be another file, so one that is too long is none."""
    (tmp_path / "file").write_bytes(b"x" * size)
    assert read_regular(str(tmp_path / "file"), 100_000) == ("x" * size if is_read else None)


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    """A folder, a pipe and nothing are none."""
    os.mkfifo(tmp_path / "pipe")
    assert [read_regular(str(path), 10) for path in (tmp_path, tmp_path / "pipe", tmp_path / "absent")] == [
        None
    ] * 3


def test_links_say_where_they_lead_even_to_nothing(tmp_path: Path) -> None:
    """A link's text is read without following it; what is no link has none."""
    (tmp_path / "driver").symlink_to("../../drivers/mlx5_core")
    (tmp_path / "file").write_text("x")
    found = [link_text(str(tmp_path / name)) for name in ("driver", "file", "absent")]
    assert found == ["../../drivers/mlx5_core", None, None]
    assert link_target_name(str(tmp_path / "driver")) == "mlx5_core"


def test_folders_are_told_from_other_entries(tmp_path: Path) -> None:
    """Folders and links to folders are listed in order; files, and links to nothing or to themselves, are not."""
    (tmp_path / "b").mkdir()
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "file").write_text("x")
    (tmp_path / "dangling").symlink_to("gone")
    (tmp_path / "loop").symlink_to("loop")
    assert folders_in(str(tmp_path)) == ["a", "b"]
    assert names_in(str(tmp_path)) == ["a", "b", "dangling", "file", "loop"]
    assert (names_in(str(tmp_path / "file")), folders_in(str(tmp_path / "absent"))) == ([], [])


@contextmanager
def _no_descriptors() -> Iterator[None]:
    """A process that can open nothing more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_process_without_descriptors_takes_nothing_for_missing(tmp_path: Path) -> None:
    """Each way to look fails then, instead of telling that nothing is there."""
    (tmp_path / "file").write_text("x")
    with _no_descriptors():
        for look in (lambda path: read_regular(path, 10), read_text, names_in, folders_in):
            with pytest.raises(OSError, match="Too many open files"):
                look(str(tmp_path))
