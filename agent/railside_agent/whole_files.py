"""Reads files that we or the kubelet have written whole: something else may stand in their place by now.

It must not understand them. Everything here blocks.
"""

import os
import stat
from pathlib import Path
from typing import Final

LARGEST_BYTES: Final = 1 << 24
"""Far beyond any file of ours; so that an odd one does not take the node's memory."""


def read_whole(path: Path, *, least_bytes: int = 0, most_bytes: int = LARGEST_BYTES) -> bytes:
    """The content of a regular file of sound size; anything else, a pipe or a device, raises OSError."""
    # Non-blocking, so that a pipe of that name is refused below and not waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path} is not a file")
        if not least_bytes <= found.st_size <= most_bytes:
            raise OSError(f"{path} has {found.st_size} bytes; expected are {least_bytes} to {most_bytes}")
        return os.read(descriptor, found.st_size)
    finally:
        os.close(descriptor)
