"""Reads files that the agent itself has written: they may have been put in the place of, as any file of a host.

It must not understand them. Everything here blocks.
"""

import os
import stat
from pathlib import Path
from typing import Final

LARGEST_BYTES: Final = 1 << 24


def read_own(path: Path) -> bytes:
    """The content of a regular file of sound size; anything else, a pipe or a device, raises OSError."""
    # Non-blocking, so that a pipe of that name is refused below and not waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_BYTES:
            raise OSError(f"{path} is no file of ours: it is not regular, or too large")
        return os.read(descriptor, found.st_size)
    finally:
        os.close(descriptor)
