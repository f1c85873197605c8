"""Lays out the directories of containers below run/railside, and takes them away.

A reader sees a whole directory or none: each start writes a new one, and one rename puts it in place. Unbound
means that the link is absent, never an empty directory: the runtime would start the container without an HCA.
It must not decide what lies in them. Everything here blocks: call it in a thread.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from railside_agent.container_edits import (
    ALLOCATION_FILE,
    ALLOCATIONS,
    DEVICES_LINK,
    INFO_FOLDER,
    Contents,
    read_allocation,
)
from railside_agent.device_nodes import DeviceNodes
from railside_proto.pool import Container

_GENERATION: Final = "start-"
_FOLDER_MODE: Final = 0o755
_FILE_MODE: Final = 0o644


class DeviceDirectories:
    """The directories of all containers of one machine."""

    def __init__(self, root: Path, nodes: DeviceNodes) -> None:
        """Keep them below ``root``, and make their nodes with ``nodes``."""
        self._folder = root / ALLOCATIONS
        self._nodes = nodes

    def prepare(self, key: str, seats: tuple[str, ...]) -> None:
        """Make the folders that an Allocate answer names, unbound. Raises OSError.

        Whoever held one of ``seats`` before is gone, or shares them within one pod and is laid out again at
        its own start: their folders go.
        """
        for folder, container in self._bound():
            if not set(seats).isdisjoint(container.seats):
                shutil.rmtree(folder, ignore_errors=True)
        self._make_folder(key)

    def lay_out(self, key: str, contents: Contents) -> None:
        """Make ``contents`` what the container's start finds. Raises OSError, and then no start succeeds."""
        folder = self._make_folder(key)
        for name, text in contents.files.items():
            _replace_text(folder / INFO_FOLDER / name, text)
        generation = Path(tempfile.mkdtemp(prefix=_GENERATION, dir=folder))
        for node in contents.nodes:
            self._nodes.make(generation / node.name, node)
        generation.chmod(_FOLDER_MODE)
        _point(folder, generation)

    def containers(self) -> Iterator[Container]:
        """Every container that is bound, as written at its last start."""
        return (container for _, container in self._bound())

    def _bound(self) -> Iterator[tuple[Path, Container]]:
        for link in sorted(self._folder.glob(f"*/{DEVICES_LINK}")):
            try:
                text = (link.parent / INFO_FOLDER / ALLOCATION_FILE).read_bytes()
            except OSError:
                continue
            found = read_allocation(text)
            if found is not None:
                yield link.parent, found

    def _make_folder(self, key: str) -> Path:
        folder = self._folder / key
        (folder / INFO_FOLDER).mkdir(parents=True, exist_ok=True)
        (folder / INFO_FOLDER).chmod(_FOLDER_MODE)
        (folder / DEVICES_LINK).unlink(missing_ok=True)
        return folder


def _replace_text(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(text)
    fresh.chmod(_FILE_MODE)
    fresh.replace(path)


def _point(folder: Path, generation: Path) -> None:
    """Put ``generation`` in place, then drop what earlier starts left."""
    fresh = folder / f".{generation.name}"
    fresh.symlink_to(generation.name)
    fresh.replace(folder / DEVICES_LINK)
    for old in folder.glob(f"{_GENERATION}*"):
        if old != generation:
            shutil.rmtree(old, ignore_errors=True)
