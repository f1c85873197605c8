"""What can go wrong with one entry of a tree, done and undone. It must not hold any expectation."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

CHANGES = (
    "gone",
    "empty",
    "garbage",
    "blank",
    "minus",
    "numbers",
    "long",
    "folder",
    "dangling",
    "loop",
    "unreadable",
)
_CONTENTS = {
    "empty": b"",
    "garbage": b"\xff\xfe\0\x1b[1m\n",
    "blank": b"\n\n",
    "minus": b"-1\n",
    "numbers": b"231:99999999999999999999\n",
    "long": b"9" * 1_000_000,
}
_LINKS = {
    "dangling": "../nowhere/0000:77:00.0",
    "loop": "loop",
    # It can be opened, by root at least, and then not be read.
    "unreadable": "/proc/self/mem",
}


class Mutations:
    """Changes entries below ``root`` and puts everything back."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._aside = root.with_name(f"{root.name}-aside")
        self._aside.mkdir()
        self._numbers = count()

    @contextmanager
    def made(self, path: str, change: str) -> Iterator[None]:
        """``path`` as ``change`` makes it, for a while; what an earlier change took away stays so."""
        place = self.root / path
        aside = self._aside / str(next(self._numbers))
        there = os.path.lexists(place)
        if there:
            place.rename(aside)
        if place.parent.is_dir():
            _make(place, change)
        try:
            yield
        finally:
            _remove(place)
            if there:
                aside.rename(place)


def _make(place: Path, change: str) -> None:
    if change in _CONTENTS:
        place.write_bytes(_CONTENTS[change])
    elif change in _LINKS:
        place.symlink_to(place.name if change == "loop" else _LINKS[change])
    elif change == "folder":
        place.mkdir()


def _remove(place: Path) -> None:
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif place.is_dir():
        shutil.rmtree(place)
