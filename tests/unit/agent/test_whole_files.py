import os
from collections.abc import Callable
from pathlib import Path

import pytest

from railside_agent.whole_files import LARGEST_BYTES, read_whole


def test_a_file_of_ours_is_read_whole(tmp_path: Path) -> None:
    """What was written comes back."""
    (tmp_path / "file").write_bytes(b"ours")
    assert read_whole(tmp_path / "file") == b"ours"


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, LARGEST_BYTES + 1)


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    "make", [os.mkfifo, Path.mkdir, _huge, _endless], ids=["pipe", "folder", "huge", "endless"]
)
def test_what_is_no_file_of_ours_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """Nothing in the place of a file makes the reader wait, or fills the memory."""
    make(tmp_path / "file")
    with pytest.raises(OSError, match="file"):
        read_whole(tmp_path / "file")
