"""Looks at and makes character devices. It must not decide which ones.

Whoever reads or lays out nodes takes a ``DeviceNodes``, so that stand-ins can play where nobody is root.
"""

import contextlib
import os
import stat
from pathlib import Path
from typing import Protocol

from railside_agent.tree_files import printable
from railside_proto.machine import DeviceNode


class DeviceNodes(Protocol):
    """The two things anybody does with a device node."""

    def read(self, path: Path) -> DeviceNode | None:
        """The node at ``path``; None where there is none, or something else."""

    def make(self, path: Path, node: DeviceNode) -> None:
        """Make ``node`` at ``path``, which must not exist. Raises OSError."""


class CharacterDevices:
    """The kernel's own nodes. Making one needs the capability MKNOD, opening it is never needed."""

    def read(self, path: Path) -> DeviceNode | None:
        """The character device at ``path``, links not followed; None for anything else."""
        try:
            found = path.lstat()
        except OSError:
            return None
        if not stat.S_ISCHR(found.st_mode):
            return None
        return DeviceNode(
            name=printable(path.name),
            major=os.major(found.st_rdev),
            minor=os.minor(found.st_rdev),
            mode=stat.S_IMODE(found.st_mode),
            uid=found.st_uid,
            gid=found.st_gid,
        )

    def make(self, path: Path, node: DeviceNode) -> None:
        """Make the node with its mode and, where the process may give files away, its owner. Raises OSError."""
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(node.major, node.minor))
        # The agent does without the capability CHOWN: root's containers open the node all the same.
        with contextlib.suppress(PermissionError):
            os.chown(path, node.uid, node.gid)
        path.chmod(node.mode)
