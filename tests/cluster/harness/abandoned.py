"""Answers for runs that were killed before they could clear up: the next run does it for them.

It must not touch a run that lives: that one holds the lock in its work folder.
"""

import fcntl
import os
import tempfile
from pathlib import Path
from typing import TextIO

from harness import leftovers
from harness.places import Places

# Short, and not in TMPDIR: sockets lie below it, and their paths are limited to 107 bytes.
PARENT = Path("/tmp")  # noqa: S108
PREFIX = "kc."


def new_run() -> tuple[Places, TextIO]:
    """The places of a new run, and the lock that says it lives while it is open."""
    places = Places(Path(tempfile.mkdtemp(prefix=PREFIX, dir=PARENT)))
    fresh = places.lock.with_suffix(".new")
    lock = fresh.open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    # It appears locked: a run that starts at this moment must not take this one for dead.
    fresh.rename(places.lock)
    return places, lock


def clear_dead_runs() -> None:
    """Remove what killed runs left."""
    for lock in PARENT.glob(f"{PREFIX}*/lock"):
        if _is_dead(lock):
            leftovers.clear(Places(lock.parent))


def _is_dead(path: Path) -> bool:
    try:
        # The folder is everybody's: what somebody else put there is neither followed nor waited for.
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(lock).st_uid == os.geteuid()
    except OSError:  # held
        return False
    finally:
        os.close(lock)
