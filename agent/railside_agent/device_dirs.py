"""Lays out the directories of containers below run/railside, and takes them away.

A reader sees a whole directory or none: each start writes a new one, and one rename puts it in place. Unbound
means that the link is absent, never an empty directory: the runtime would start the container without an HCA.
It must not decide what lies in them. Everything here blocks, and its callers take turns.
"""

import shutil
import tempfile
import time
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
    still_true,
)
from railside_agent.device_nodes import DeviceNodes
from railside_proto.machine import DeviceNode, Machine
from railside_proto.pool import Container

_GENERATION: Final = "start-"
_FOLDER_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_KEPT_SECONDS: Final = 60.0
"""A runtime may still walk the directory of a start that was given up."""


class DeviceDirectories:
    """The directories of all containers of one machine."""

    def __init__(self, root: Path, nodes: DeviceNodes) -> None:
        """Keep them below ``root``, and make their nodes with ``nodes``."""
        self._folder = root / ALLOCATIONS
        self._nodes = nodes

    def prepare(self, key: str, seats: tuple[str, ...]) -> None:
        """Make the folders that an Allocate answer names, unbound. Raises OSError.

        Whoever held one of ``seats`` before is gone, or shares them within one pod and is laid out again at
        its own start: their folders go, and so does any that nobody can tell whose it is.
        """
        for folder, container in self._bound():
            if container is None or not set(seats).isdisjoint(container.seats):
                _unbind(folder)
                shutil.rmtree(folder, ignore_errors=True)
        _unbind(self._make_folder(key))

    def lay_out(self, key: str, contents: Contents) -> None:
        """Make ``contents`` what the container's start finds. Raises OSError, and then no start succeeds."""
        folder = self._make_folder(key)
        generation = Path(tempfile.mkdtemp(prefix=_GENERATION, dir=folder))
        try:
            for name, text in contents.files.items():
                _replace_text(folder / INFO_FOLDER / name, text)
            for node in contents.nodes:
                self._nodes.make(generation / node.name, node)
            generation.chmod(_FOLDER_MODE)
            _point(folder, generation)
        except OSError:
            _unbind(folder)
            shutil.rmtree(generation, ignore_errors=True)
            raise
        _sweep(folder, generation)

    def withdraw(self, key: str) -> None:
        """No start of this container finds anything, until it is laid out again. Raises OSError."""
        _unbind(self._folder / key)

    def withdraw_untrue(self, machine: Machine) -> list[Container]:
        """Withdraw what ``machine`` does not bear out, and return whose that was.

        Raises the first OSError at the end: one folder that refuses keeps no other.
        """
        withdrawn: list[Container] = []
        refused: list[OSError] = []
        for folder, container in self._bound():
            if container is not None and not still_true(container, self._laid_out(folder), machine):
                try:
                    _unbind(folder)
                    withdrawn.append(container)
                except OSError as error:
                    refused.append(error)
        if refused:
            raise refused[0]
        return withdrawn

    def containers(self) -> Iterator[Container]:
        """Every container that is bound, as written at its last start."""
        return (container for _, container in self._bound() if container is not None)

    def _bound(self) -> Iterator[tuple[Path, Container | None]]:
        for link in sorted(self._folder.glob(f"*/{DEVICES_LINK}")):
            try:
                text = (link.parent / INFO_FOLDER / ALLOCATION_FILE).read_bytes()
            except OSError:
                text = b""
            yield link.parent, read_allocation(text)

    def _laid_out(self, folder: Path) -> frozenset[DeviceNode]:
        found = (self._nodes.read(path) for path in (folder / DEVICES_LINK).glob("*"))
        return frozenset(node for node in found if node is not None)

    def _make_folder(self, key: str) -> Path:
        folder = self._folder / key
        (folder / INFO_FOLDER).mkdir(parents=True, exist_ok=True)
        (folder / INFO_FOLDER).chmod(_FOLDER_MODE)
        return folder


def _unbind(folder: Path) -> None:
    (folder / DEVICES_LINK).unlink(missing_ok=True)


def _replace_text(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(text)
    fresh.chmod(_FILE_MODE)
    fresh.replace(path)


def _point(folder: Path, generation: Path) -> None:
    fresh = folder / f".{generation.name}"
    fresh.symlink_to(generation.name)
    fresh.replace(folder / DEVICES_LINK)


def _sweep(folder: Path, generation: Path) -> None:
    """Drop what starts of a while ago left."""
    for old in folder.glob(f"{_GENERATION}*"):
        if old != generation and old.stat().st_mtime < time.time() - _KEPT_SECONDS:
            shutil.rmtree(old, ignore_errors=True)
