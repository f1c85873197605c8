"""The recordings of the demo's agents, kept as one, so that there is something to replay.

It must not read what is recorded.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from railside_agent.flight_ring import recordings
from railside_proto.names import RECORDER_DIR


def why_not(folder: Path) -> str | None:
    """Why nothing can be kept in ``folder``; None where it can. Makes the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        full = any(folder.iterdir())
    except OSError as error:
        return f"nothing can be kept in {folder}: {error.strerror}"
    return f"nothing is kept in {folder}, as it is not empty" if full else None


def keep(roots: Iterable[Path], folder: Path) -> None:
    """Copy what the agents of ``roots`` recorded to ``folder``, one behind the other. Raises OSError."""
    files = [file for root in roots for file in recordings(root / RECORDER_DIR)]
    for number, file in enumerate(files):
        shutil.copyfile(file, folder / f"flight-{number:08d}.jsonl")
