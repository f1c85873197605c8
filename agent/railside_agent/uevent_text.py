"""Gives the kernel's messages about devices a meaning: which action, on what, and whether that concerns us.

It must not raise on any bytes: what is no such message is None. Two forms are known: the kernel's own
(lib/kobject_uevent.c) and that of libudev (systemd, sd-device/device-monitor.c), which test beds send.
"""

import struct
from collections.abc import Mapping
from typing import Final

import msgspec

_LIBUDEV: Final = b"libudev\0"
_LIBUDEV_MAGIC: Final = 0xFEEDCAFE
_MAGIC: Final = struct.Struct("!I")
_LENGTHS: Final = struct.Struct("=III")
"""Of a libudev header, behind prefix and magic: its size, where the properties begin, and their length."""

_SUBSYSTEMS: Final = {"infiniband", "infiniband_verbs", "infiniband_mad", "pci"}
"""What makes HCAs, their device nodes and GPUs come and go. Network devices do not count: pods make them."""


class Uevent(msgspec.Struct, frozen=True, kw_only=True):
    """One message about one device."""

    action: str
    subsystem: str
    devpath: str
    """Its folder below /sys."""
    properties: Mapping[str, str]


def parse_uevent(message: bytes) -> Uevent | None:
    """What ``message`` tells; None where it is no uevent."""
    text = _libudev_properties(message) if message.startswith(_LIBUDEV) else _kernel_properties(message)
    return None if text is None else _uevent(text)


def concerns_devices(uevent: Uevent) -> bool:
    """Whether the machine may look different after ``uevent``."""
    is_rdma_cm = uevent.subsystem == "misc" and uevent.devpath.endswith("/rdma_cm")
    return is_rdma_cm or uevent.subsystem in _SUBSYSTEMS


def _kernel_properties(message: bytes) -> bytes | None:
    """Behind the summary ``add@/devices/...``, which says nothing that the properties do not."""
    summary, _, properties = message.partition(b"\0")
    return properties if b"@/" in summary else None


def _libudev_properties(message: bytes) -> bytes | None:
    behind_magic = len(_LIBUDEV) + _MAGIC.size
    if len(message) < behind_magic + _LENGTHS.size:
        return None
    (magic,) = _MAGIC.unpack_from(message, len(_LIBUDEV))
    _, begin, length = _LENGTHS.unpack_from(message, behind_magic)
    if magic != _LIBUDEV_MAGIC or begin < behind_magic + _LENGTHS.size or begin + length > len(message):
        return None
    return message[begin : begin + length]


def _uevent(text: bytes) -> Uevent | None:
    lines = (line.partition("=") for line in text.decode("utf-8", errors="replace").split("\0"))
    properties = {key: value for key, separator, value in lines if key and separator}
    try:
        return Uevent(
            action=properties["ACTION"],
            subsystem=properties["SUBSYSTEM"],
            devpath=properties["DEVPATH"],
            properties=properties,
        )
    except KeyError:
        return None
