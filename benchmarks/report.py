"""The report of one run: which machine it was, under which load, and all figures.

It answers for the file. It must not measure anything but the machine itself.
"""

import datetime as dt
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from benchmarks.figures import Figure

Profile = Literal["short", "full"]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured, in words that name nobody's machine."""

    cores: int
    kernel: str
    python: str
    virtual: bool
    """Whether a hypervisor is below."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    profile: Profile
    on: dt.date
    machine: Machine
    load_before: float
    """Of the last minute, when the run began: what others did on this machine."""
    load_after: float
    seconds: float
    figures: tuple[Figure, ...]


class Run:
    """A run that is under way."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._load = os.getloadavg()[0]
        self._began = time.monotonic()

    def concluded(self, figures: Sequence[Figure]) -> Report:
        """The report, as of now."""
        return Report(
            profile=self._profile,
            on=dt.datetime.now(dt.UTC).date(),
            machine=_this_machine(),
            load_before=self._load,
            load_after=os.getloadavg()[0],
            seconds=time.monotonic() - self._began,
            figures=tuple(figures),
        )


def write_report(report: Report, path: Path) -> None:
    """Write ``report`` to ``path``. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")


def read_report(path: Path) -> Report:
    """The report at ``path``. Raises OSError, and MsgspecError for what is no report."""
    return msgspec.json.decode(path.read_bytes(), type=Report)


def _this_machine() -> Machine:
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        # What a distribution or a host adds behind the version is nobody's business.
        kernel=platform.release().partition("-")[0],
        python=platform.python_version(),
        virtual="hypervisor" in Path("/proc/cpuinfo").read_text(encoding="utf-8").split(),
    )
