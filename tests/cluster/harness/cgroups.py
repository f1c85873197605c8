"""Answers for the control groups that belong to a cluster, in every cgroup v1 hierarchy.

It must not touch a group that it did not make.
"""

import contextlib
from pathlib import Path

from harness import waiting

MOUNTS = Path("/proc/self/mountinfo")


def hierarchies() -> list[Path]:
    """Where each cgroup hierarchy is mounted."""
    return [Path(fields[4]) for fields in map(str.split, MOUNTS.read_text().splitlines()) if _is_hierarchy(fields)]


def _is_hierarchy(fields: list[str]) -> bool:
    return fields[fields.index("-") + 1] in {"cgroup", "cgroup2"}


def create(name: str) -> None:
    """Make the group ``name`` (``parent/child``) in every hierarchy."""
    for hierarchy in hierarchies():
        group = hierarchy
        for part in Path(name).parts:
            group /= part
            group.mkdir(exist_ok=True)
            _inherit_cpuset(group)


def _inherit_cpuset(group: Path) -> None:
    """A cpuset of v1 starts empty, and no process can enter it so."""
    for setting in ("cpuset.mems", "cpuset.cpus"):
        if (group / setting).exists() and (group.parent / setting).exists():
            (group / setting).write_text((group.parent / setting).read_text())


def existing(name: str) -> list[Path]:
    """The folders of the group ``name`` that are there."""
    return [folder for hierarchy in hierarchies() if (folder := hierarchy / name).is_dir()]


def remove(name: str, timeout_s: float = 10) -> None:
    """Remove the group ``name`` with all below it, as soon as its processes are gone."""

    def removed() -> bool:
        for folder in existing(name):
            _remove_tree(folder)
        return not existing(name)

    waiting.until(removed, f"the control group {name} to be empty", timeout_s)


def _remove_tree(folder: Path) -> None:
    for inner in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
        with contextlib.suppress(OSError):  # busy yet
            inner.rmdir()
    with contextlib.suppress(OSError):
        folder.rmdir()
