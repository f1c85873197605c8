"""Answers for the Kubernetes programs and containerd: built once, and found by name afterwards.

It must not run inside the cluster's namespaces, where no network is.
"""

import os
import subprocess
import sys
from pathlib import Path

MODULES = Path(__file__).resolve().parent.parent / "tools"
BUILD_SCRIPT = MODULES / "build"
DEFAULT_VERSION = "1.34"
PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kubelet",
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
)
DEBIAN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def versions() -> list[str]:
    """The versions of Kubernetes that can be built: each has a module of its own."""
    return sorted(module.name.partition("-")[2] for module in MODULES.glob("kubernetes-*"))


def ensure(kubernetes: str) -> str:
    """A PATH on which all programs of that version stand; ``SystemExit`` with one sentence if there is none."""
    words: list[str | Path] = [BUILD_SCRIPT, kubernetes]
    built = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603  # ours
    folders = [Path(line) for line in built.stdout.splitlines()]
    missing = [name for name in PROGRAMS if not any((folder / name).is_file() for folder in folders)]
    if built.returncode != 0 or missing:
        raise SystemExit(f"{BUILD_SCRIPT} did not give all programs of the cluster; its words stand above.")
    own = Path(sys.executable).parent
    return os.pathsep.join([*map(str, folders), str(own), os.environ.get("PATH", ""), DEBIAN_PATH])
