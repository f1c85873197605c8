"""Reads one entry of a tree at a time: a small text, a link's text, the names in a folder.

It must not interpret anything, and nothing odd may make it raise. It raises OSError only where this process
has no descriptor or memory left to look with. All paths are strings, as each look reads hundreds of files.
"""

import errno
import os
import stat
from pathlib import Path
from typing import Final

LONGEST_TEXT_BYTES: Final = 4096
"""A sysfs file is at most a page; more than that is not a sysfs file."""

_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""Non-blocking, so that a pipe in an odd tree is an empty file and not a hang."""

_READ_AT_ONCE: Final = 1 << 16


def top_of(root: Path) -> str:
    """What every path of a tree begins with: nothing for the host's own, to say ``/sys`` as others do."""
    return str(root).rstrip("/")


def read_text(path: str) -> str | None:
    """A small file's text without its surrounding blanks; None where it cannot be read, or is not text."""
    descriptor = _opened(path)
    if descriptor is None:
        return None
    try:
        content = os.read(descriptor, LONGEST_TEXT_BYTES)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return content.decode("utf-8", errors="replace").strip("\0 \t\r\n")


def read_regular(path: str, longest_bytes: int) -> str | None:
    """The whole text of a regular file; None for anything else, and for one longer than ``longest_bytes``."""
    descriptor = _opened(path)
    if descriptor is None:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        content = _read_all(descriptor, longest_bytes + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return content.decode("utf-8", errors="replace") if len(content) <= longest_bytes else None


def link_text(path: str) -> str | None:
    """What a link says, even one that leads nowhere; None where there is no link."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def link_target_name(path: str) -> str | None:
    """The last word of what a link says, in text that can be printed."""
    text = link_text(path)
    return None if text is None else printable(text.rpartition("/")[2])


def names_in(folder: str) -> list[str]:
    """What is in a folder, as the file system spells it, sorted; nothing where it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        _raise_if_exhausted(error)
        return []


def folders_in(folder: str) -> list[str]:
    """The folders in a folder, and links to such, sorted; links to nothing are left out."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if _is_folder(entry))
    except OSError as error:
        _raise_if_exhausted(error)
        return []


def printable(name: str) -> str:
    """A name as text, whatever bytes it is made of."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", errors="replace")


def kind(path: str) -> int:
    """File type of what ``path`` leads to, as in ``stat.S_IFMT``; 0 where it leads nowhere."""
    try:
        return stat.S_IFMT(os.stat(path).st_mode)
    except OSError:
        return 0


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _opened(path: str) -> int | None:
    try:
        return os.open(path, _FLAGS)
    except OSError as error:
        _raise_if_exhausted(error)
        return None


def _read_all(descriptor: int, most_bytes: int) -> bytes:
    parts: list[bytes] = []
    while most_bytes > 0 and (part := os.read(descriptor, min(most_bytes, _READ_AT_ONCE))):
        parts.append(part)
        most_bytes -= len(part)
    return b"".join(parts)


def _raise_if_exhausted(error: OSError) -> None:
    """What this process lacks says nothing of the machine: a look that fails is better than one that lies."""
    if error.errno in _EXHAUSTED:
        raise error
