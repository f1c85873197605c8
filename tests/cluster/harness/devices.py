"""Answers for harmless character devices that stand in for HCAs on a machine whose kernel serves no RDMA.

A container's device rules let one open them or refuse it, as they do with the real ones.
It must not name a device whose mere opening does something (a watchdog, a hibernation snapshot).
"""

import os
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple

MISC_MAJOR = 10
MISC_DEVICES = Path("/proc/misc")
#: Misc devices whose opening changes nothing, and that no runtime allows to every container.
HARMLESS = frozenset(
    {
        "autofs",
        "btrfs-control",
        "cpu_dma_latency",
        "cuse",
        "fuse",
        "hw_random",
        "kvm",
        "loop-control",
        "mapper",
        "ppp",
        "rfkill",
        "udmabuf",
        "uhid",
        "uinput",
        "userfaultfd",
        "vga_arbiter",
        "vhost-net",
        "vhost-vsock",
        "vsock",
    }
)


class Number(NamedTuple):
    """A character device's numbers."""

    major: int
    minor: int


def stand_ins(count: int = 9) -> list[Number]:
    """``count`` device numbers that root can open for reading; ``RuntimeError`` if there are fewer."""
    with tempfile.TemporaryDirectory() as folder:
        usable = [number for number in harmless() if opens(number, Path(folder))]
    if len(usable) < count:
        raise RuntimeError(
            f"{count} harmless character devices must stand in for HCAs, and this kernel has {len(usable)}"
        )
    return usable[:count]


def harmless() -> list[Number]:
    """The devices of :data:`HARMLESS` that this kernel has."""
    entries = (line.split() for line in MISC_DEVICES.read_text(encoding="ascii").splitlines())
    return [Number(MISC_MAJOR, int(minor)) for minor, name in entries if name in HARMLESS]


def opens(number: Number, folder: Path) -> bool:
    """True if a node of these numbers, made in ``folder``, opens."""
    path = folder / f"{number.major}-{number.minor}"
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(*number))
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True
