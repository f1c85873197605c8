"""Lays out the directories of containers below run/railside, and takes them away.

A reader sees a whole directory or none: each start writes a new one, and one rename puts it in place. Unbound
means that the link is absent, never an empty directory: the runtime would start the container without an HCA.
It must not decide what lies in them. Everything here blocks, and its callers take turns.
"""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Final

from railside_agent.allocation_file import ALLOCATION_FILE, read_binding
from railside_agent.container_edits import (
    ALLOCATIONS,
    DEVICES_LINK,
    INFO_FOLDER,
    Contents,
    allocation_folders,
    still_true,
)
from railside_agent.device_nodes import DeviceNodes
from railside_agent.whole_files import read_whole
from railside_proto.machine import DeviceNode, Machine
from railside_proto.pool import Binding, Pool

_GENERATION: Final = "start-"
_FOLDER_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_KEPT_SECONDS: Final = 60.0
"""A runtime may still walk the directory of a start that was given up."""


class DeviceDirectories:
    """The directories of all containers of one machine."""

    def __init__(self, root: Path, nodes: DeviceNodes, pool: Pool) -> None:
        """Keep those of ``pool`` below ``root``, and make their nodes with ``nodes``."""
        self._folder = root / ALLOCATIONS
        self._folders = allocation_folders(pool)
        self._nodes = nodes
        self._known: dict[str, Binding] | None = None

    def recall(self, remembered: Mapping[str, Binding]) -> None:
        """Read what is bound, and take what is ``remembered`` by key where its account is lost. Raises OSError.

        Nothing is laid out for those: their containers run on, and each further start is bound anew.
        """
        self._known = dict(remembered)
        self._known |= dict(self._read())

    def prepare(self, key: str, seats: tuple[str, ...]) -> None:
        """Make the folders that an Allocate answer names, unbound. Raises OSError.

        No start finds what was laid out for one of ``seats`` before. What was bound is not forgotten: whose a seat
        is now is for the kubelet's checkpoint to say, as it may have dealt one that is in a pod's hands.
        """
        for other, binding in self._bindings().items():
            if not set(seats).isdisjoint(binding.seats):
                self.close(other)
        self.close(self._make_folder(key).name)

    def lay_out(self, key: str, contents: Contents, binding: Binding) -> None:
        """Make ``contents`` what the container's start finds. Raises OSError, and then no start succeeds.

        What was bound before counts on then: its container may be running.
        """
        folder = self._make_folder(key)
        generation = Path(tempfile.mkdtemp(prefix=_GENERATION, dir=folder))
        try:
            for node in contents.nodes:
                self._nodes.make(generation / node.name, node)
            generation.chmod(_FOLDER_MODE)
            for name, text in contents.files.items():
                _replace_text(folder / INFO_FOLDER / name, text)
            _point(folder, generation)
        except OSError:
            _unbind(folder)
            shutil.rmtree(generation, ignore_errors=True)
            raise
        self._bindings()[key] = binding
        _sweep(folder, generation)

    def withdraw(self, key: str) -> None:
        """No start of this container finds anything, and what it was bound to is forgotten. Raises OSError."""
        self.close(key)
        (self._folder / key / INFO_FOLDER / ALLOCATION_FILE).unlink(missing_ok=True)
        self._bindings().pop(key, None)

    def close(self, key: str) -> None:
        """No start of this container finds anything, until it is laid out again. Raises OSError."""
        _unbind(self._folder / key)

    def untrue(self, machine: Machine) -> dict[str, Binding]:
        """What a start would find that ``machine`` does not bear out, by key. Raises OSError."""
        return {
            key: binding
            for key, binding in self._bindings().items()
            if _is_laid_out(self._folder / key) and not self.is_true(key, machine)
        }

    def is_true(self, key: str, machine: Machine) -> bool:
        """Whether what is laid out is what ``machine`` shows of the HCAs that it was laid out for."""
        binding = self._bindings().get(key)
        return binding is not None and still_true(binding, self._laid_out(self._folder / key), machine)

    @property
    def known(self) -> tuple[Binding, ...]:
        """What was bound when it was last looked at; reads nothing."""
        return tuple((self._known or {}).values())

    def bindings(self) -> tuple[Binding, ...]:
        """Every container that is bound, as written at its last start. Raises OSError."""
        return tuple(self._bindings().values())

    def collect(self, kept: Container[str]) -> int:
        """Take away the folders of containers that are gone, all but those with ``kept`` keys; how many went.

        A folder that was touched a moment ago stays: its container may be on its way.
        """
        every = self._folder.glob(self._folders)
        folders = [folder for folder in every if folder.name not in kept and _is_old(folder)]
        for folder in folders:
            # One that refuses keeps no other.
            with contextlib.suppress(OSError):
                self._drop(folder.name)
        for key in [key for key in self._bindings() if key not in kept and not (self._folder / key).exists()]:
            self._bindings().pop(key)
        return len(folders)

    def _bindings(self) -> dict[str, Binding]:
        """What is bound, by key; read once, as nobody else writes here."""
        if self._known is None:
            self._known = dict(self._read())
        return self._known

    def _read(self) -> Iterator[tuple[str, Binding]]:
        for folder in sorted(self._folder.glob(self._folders)):
            binding = _binding_in(folder)
            if binding is not None:
                yield folder.name, binding
            elif _is_laid_out(folder):
                # Nobody can tell whose it is, so no start may find it.
                with contextlib.suppress(OSError):
                    _unbind(folder)

    def _drop(self, key: str) -> None:
        _unbind(self._folder / key)
        self._bindings().pop(key, None)
        shutil.rmtree(self._folder / key, ignore_errors=True)

    def _laid_out(self, folder: Path) -> frozenset[DeviceNode]:
        found = (self._nodes.read(path) for path in (folder / DEVICES_LINK).glob("*"))
        return frozenset(node for node in found if node is not None)

    def _make_folder(self, key: str) -> Path:
        folder = self._folder / key
        (folder / INFO_FOLDER).mkdir(parents=True, exist_ok=True)
        (folder / INFO_FOLDER).chmod(_FOLDER_MODE)
        return folder


def _binding_in(folder: Path) -> Binding | None:
    try:
        return read_binding(read_whole(folder / INFO_FOLDER / ALLOCATION_FILE))
    except OSError:
        return None


def _is_laid_out(folder: Path) -> bool:
    return (folder / DEVICES_LINK).is_symlink()


def _is_old(folder: Path) -> bool:
    try:
        return folder.stat().st_mtime < time.time() - _KEPT_SECONDS
    except OSError:
        return False


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
