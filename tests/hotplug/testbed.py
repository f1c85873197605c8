"""A machine played by umockdev: HCAs come, change and go, with the messages that udev sends for them.

It answers for the calls of libumockdev (umockdev.h) and for what an HCA looks like. It must not know the agent.
"""

import ctypes
import os
from pathlib import Path
from typing import Final

_HCA: Final = """\
P: /devices/pci0000:15/0000:15:01.0/0000:16:0{number}.0
E: SUBSYSTEM=pci
A: vendor=0x15b3
A: class=0x020700
A: modalias=pci:v000015B3d00001021sv000015B3sd00000041bc02sc07i00
A: numa_node=0

P: /devices/pci0000:15/0000:15:01.0/0000:16:0{number}.0/infiniband/mlx5_{number}
E: SUBSYSTEM=infiniband
E: NAME=mlx5_{number}
A: node_type=1: CA
A: node_guid=5c25:7303:00a1:4c1{number}
A: hca_type=MT4129
A: ports/1/state=4: ACTIVE
A: ports/1/link_layer=InfiniBand
A: ports/1/rate=400 Gb/sec (4X NDR)
A: ports/1/lid=0x1a
L: device=../../../0000:16:0{number}.0

P: /devices/pci0000:15/0000:15:01.0/0000:16:0{number}.0/infiniband_verbs/uverbs{uverbs}
N: infiniband/uverbs{uverbs}
E: SUBSYSTEM=infiniband_verbs
E: DEVNAME=/dev/infiniband/uverbs{uverbs}
E: MAJOR=231
E: MINOR={minor}
A: dev=231:{minor}
A: ibdev=mlx5_{number}
A: abi_version=1
L: device=../../../0000:16:0{number}.0

"""


class Testbed:
    """One machine, empty at first. Processes started from here on see it in the place of their own."""

    __test__ = False

    def __init__(self) -> None:
        """Needs umockdev-wrapper around this process. Raises OSError where libumockdev is missing."""
        self._library = ctypes.CDLL("libumockdev.so.0")
        self._library.umockdev_testbed_new.restype = ctypes.c_void_p
        self._bed = ctypes.c_void_p(self._library.umockdev_testbed_new())
        self._paths: dict[int, tuple[bytes, bytes, bytes]] = {}
        self._next_uverbs = 0

    def close(self) -> None:
        """Take the machine away; this process and its children see their own again."""
        ctypes.CDLL("libgobject-2.0.so.0").g_object_unref(self._bed)

    def add_hca(self, number: int) -> None:
        """Plug HCA ``number``, 0 to 9, in, with a new device node as the kernel does; the messages go out."""
        uverbs, self._next_uverbs = self._next_uverbs, self._next_uverbs + 1
        self._paths[number] = _paths(number, uverbs)
        text = _HCA.format(number=number, uverbs=uverbs, minor=192 + uverbs)
        if not self._library.umockdev_testbed_add_from_string(self._bed, text.encode(), None):
            raise ValueError(text)

    def allow_verbs(self) -> None:
        """Show what libibverbs asks for first: the version of the kernel's interface to it."""
        Path("/sys/class/infiniband_verbs/abi_version").write_text("6\n", encoding="ascii")

    def remove_hca(self, number: int) -> None:
        """Take it out, the newest part first, each with its message."""
        for path in reversed(self._paths.pop(number)):
            self._library.umockdev_testbed_uevent(self._bed, path, b"remove")
            self._library.umockdev_testbed_remove_device(self._bed, path)

    def set_port(self, number: int, state: str) -> None:
        """Change the state of its port, of which no message tells."""
        self._library.umockdev_testbed_set_attribute(
            self._bed, self._paths[number][1], b"ports/1/state", state.encode()
        )

    def set_guid(self, number: int, guid: str) -> None:
        """Change its GUID, and send the message of a change."""
        path = self._paths[number][1]
        self._library.umockdev_testbed_set_attribute(self._bed, path, b"node_guid", guid.encode())
        self._library.umockdev_testbed_uevent(self._bed, path, b"change")


def _paths(number: int, uverbs: int) -> tuple[bytes, bytes, bytes]:
    """Of its function, its RDMA device and its device node."""
    function = f"/sys/devices/pci0000:15/0000:15:01.0/0000:16:0{number}.0"
    device, node = f"{function}/infiniband/mlx5_{number}", f"{function}/infiniband_verbs/uverbs{uverbs}"
    return function.encode(), device.encode(), node.encode()


def is_played() -> bool:
    """Whether this process runs under umockdev-wrapper."""
    return "libumockdev-preload" in os.environ.get("LD_PRELOAD", "")
