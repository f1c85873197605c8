"""Answers for what a run could leave on the machine: finding it, and clearing it away.

It must not touch anything that does not bear the run's name.
"""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil

from harness import cgroups
from harness.node_files import KERNEL_SETTINGS
from harness.places import Places

#: Folders that the programs of a node make where they are not kept from it.
FOREIGN = (
    *("/run/containerd", "/run/railside", "/run/netns", "/run/calico"),
    *("/var/lib/kubelet", "/var/lib/containerd", "/var/lib/cni", "/var/lib/railside"),
    *("/var/log/pods", "/var/log/containers", "/etc/cni", "/opt/containerd"),
)


def machine_facts() -> set[str]:
    """What is so on the machine, and may be otherwise only by someone else's doing."""
    folders = {f"the folder {path} is there" for path in FOREIGN if Path(path).exists()}
    settings = [Path("/proc/sys") / name for name in KERNEL_SETTINGS]
    return folders | {f"{path} is {path.read_text().strip()}" for path in settings if path.exists()}


def found(places: Places, facts_before: set[str]) -> list[str]:
    """One sentence for each thing of the run that is still there."""
    new_facts = sorted(machine_facts() - facts_before)
    return [*_processes(places), *_mounts(places), *_cgroups(places), *new_facts]


def clear(places: Places) -> list[str]:
    """Remove the run's control groups and its work folder; a sentence if one stays."""
    with contextlib.suppress(TimeoutError):
        cgroups.remove(places.cgroup, timeout_s=5)
    shutil.rmtree(places.workdir, ignore_errors=True)
    folder = [f"the folder {places.workdir} cannot be removed"] if places.workdir.exists() else []
    return [*folder, *_cgroups(places)]


def _processes(places: Places) -> Iterator[str]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(places.workdir) in " ".join([*process.cmdline(), process.cwd()]):
                yield f"the process {process.pid} ({process.name()}) still runs"


def _mounts(places: Places) -> Iterator[str]:
    for line in cgroups.MOUNTS.read_text().splitlines():
        if str(places.workdir) in line:
            yield f"the mount {line.split()[4]} is still there"


def _cgroups(places: Places) -> Iterator[str]:
    return (f"the control group {folder} is still there" for folder in cgroups.existing(places.cgroup))
