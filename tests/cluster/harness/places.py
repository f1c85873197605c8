"""Answers for where one run keeps its things, and for whether this process is inside such a run.

It must not make or remove anything.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

VARIABLE = "RAILSIDE_CLUSTER_WORKDIR"
ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Places:
    """All is named after the work folder, whose name is short: a socket's path has 107 bytes at most."""

    workdir: Path

    @classmethod
    def of_this_run(cls) -> Self | None:
        """The places of the run that this process belongs to."""
        workdir = os.environ.get(VARIABLE)
        return cls(Path(workdir)) if workdir else None

    @property
    def logs(self) -> Path:
        return self.workdir / "log"

    @property
    def lock(self) -> Path:
        """Held by the run while it lives."""
        return self.workdir / "lock"

    @property
    def images(self) -> Path:
        """OCI layouts; the registry serves what lies here."""
        return self.workdir / "images"

    @property
    def scratch(self) -> Path:
        """For temporary files of everything that runs inside."""
        return self.workdir / "tmp"

    @property
    def kubelet_marker(self) -> Path:
        """Exists once a real kubelet was ready in this run."""
        return self.workdir / "a-kubelet-was-ready"

    @property
    def cgroup(self) -> str:
        return f"railside-{self.workdir.name.rpartition('.')[2]}"
