"""Device nodes for those who are not root: a small text file says the numbers, the mode and the owner.

It answers for making and reading such files where real code would call mknod and stat. It must not be used
where a real kernel is to open the node.
"""

import re
from pathlib import Path
from typing import Final

from railside_proto.machine import DeviceNode

_TEXT: Final = re.compile(r"c (\d+):(\d+) ([0-7]{4}) (\d+) (\d+)\n")
_LONGEST: Final = 64


class StandInNodes:
    """Reads and makes stand-ins: one line, ``c MAJOR:MINOR MODE UID GID``, the mode in octal."""

    def read(self, path: Path) -> DeviceNode | None:
        """The node at ``path`` (a link is not followed, as by lstat); None where there is none."""
        if path.is_symlink() or not path.is_file():
            return None
        try:
            found = _TEXT.fullmatch(_head(path))
        except FileNotFoundError:
            # It went between the look and the reading, which are one step with a real node.
            return None
        if found is None:
            return None
        major, minor, mode, uid, gid = found.groups()
        return DeviceNode(
            name=path.name,
            major=int(major),
            minor=int(minor),
            mode=int(mode, 8),
            uid=int(uid),
            gid=int(gid),
        )

    def make(self, path: Path, node: DeviceNode) -> None:
        """Makes ``node`` at ``path``. Raises FileExistsError as mknod does, and other OSErrors."""
        line = f"c {node.major}:{node.minor} {node.mode:04o} {node.uid} {node.gid}\n"
        with path.open("x", encoding="ascii") as file:
            file.write(line)


def _head(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_LONGEST).decode("ascii", errors="replace")
