#!/usr/bin/env python3
"""Answers for the project's image: Debian's Python, the locked dependencies and the wheel, as an OCI layout.

build.py [--output FOLDER] [--reference NAME:TAG]

It must not hold what people type (the ``cli`` extra), a compiler, a shell or a package manager.
The same inputs give the same digest. Layers that change seldom are kept outside the clone.
"""

import argparse
import compileall
import configparser
import hashlib
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from oci import PROGRAM, Entry, files_below, write_layer, write_layout

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = "docker.io/railside/railside:dev"
PYTHON = (3, 11)
#: Where Debian's Python looks for what Debian did not bring.
SITE = "usr/local/lib/python3.11/dist-packages"
SUITE = "bookworm"
PACKAGES = ("libpython3.11-stdlib", "python3.11-minimal")
#: Nothing in the image runs, reads or checks these.
LEFT_OUT = (
    *("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/lintian/*", "/usr/share/perl5/*"),
    *("/usr/share/bash-completion/*", "/usr/share/polkit-1/*", "/usr/share/dpkg/*", "/usr/lib/systemd/*", "/usr/libexec/*"),
    *("/usr/bin/dpkg*", "/usr/bin/tar", "/usr/bin/update-alternatives", "/usr/sbin/*", "/usr/lib/dpkg/*"),
    *("/etc/cron.daily/*", "/etc/logrotate.d/*", "/etc/dpkg/*", "/etc/alternatives/*"),
    *("/usr/lib/x86_64-linux-gnu/gconv/*", "/usr/lib/x86_64-linux-gnu/perl-base/*", "/usr/lib/python3.11/lib2to3/*"),
    *("/usr/lib/python3.11/pydoc_data/*", "/usr/lib/python3.11/ensurepip/*", "/usr/lib/python3.11/lib-dynload/_test*"),
)
#: Run in the unpacked tree, in this order; ``$1`` is its folder.
FINISHING = (
    'rm -rf "$1"/var/lib/dpkg "$1"/var/lib/apt "$1"/var/cache/* "$1"/var/log/* "$1"/etc/apt "$1"/etc/dpkg "$1"/etc/fstab',
    'rm -f "$1"/etc/hostname "$1"/etc/resolv.conf; mkdir -p "$1"/proc "$1"/sys "$1"/root "$1"/usr/local/bin',
    'echo "root:x:0:0:root:/root:/sbin/nologin" >"$1"/etc/passwd; echo "root:x:0:" >"$1"/etc/group',
    'ln -s python3.11 "$1"/usr/bin/python3',
    # Hashes instead of times, so that the compiled files hold whatever time the layer gives them.
    'chroot "$1" /usr/bin/python3.11 -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3.11',
)
CONFIG = {
    "Entrypoint": ["/usr/local/bin/railside-agent"],
    "Env": ["PATH=/usr/local/bin:/usr/bin", "LANG=C.UTF-8", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"],
}
#: Console scripts whose module starts so need the dependencies of this image only.
PROGRAMS_OF = "railside_main."


def run(*argv: str | Path, output: Path | None = None) -> None:
    """Run a program of the build; ``SystemExit`` names it if it fails."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1"}
    words = [str(word) for word in argv]
    done = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr}")
    if output is not None:
        output.write_text(done.stdout)
