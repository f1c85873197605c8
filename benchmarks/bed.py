"""The bed that the agent is measured on: a machine's tree, and the embedded kubelet beside it on real sockets.

It must not measure anything.
"""

import asyncio
import contextlib
import random
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.programs import IS_ROOT, REPOSITORY
from railside_agent.device_nodes import CharacterDevices, DeviceNodes
from railside_agent.settings import Settings
from railside_proto.names import DEVICE_PLUGINS, KUBELET_CHECKPOINT, KUBELET_DIR, RUN_DIR, STATE_DIR
from railside_sim.kubelet import EmbeddedKubelet
from railside_sim.manifest import read_manifest
from railside_sim.stand_in_nodes import StandInNodes
from railside_sim.tree import write_tree

MACHINE: Final = "ecs.hpcpni3.45xlarge"
HCAS: Final = 8
MANIFEST: Final = read_manifest(REPOSITORY / f"tests/machines/{MACHINE}.machine")
NODES: Final[DeviceNodes] = CharacterDevices() if IS_ROOT else StandInNodes()
"""The kernel's device nodes where they can be made."""

MEMORY: Final = Path("/dev/shm")  # noqa: S108 -- the folder below it has a name of its own
"""Where sys, dev and run of a machine lie in memory, as on a real one; its var/lib is on the disk."""

_SECONDS: Final = 20.0


class Bed:
    """One machine and its kubelet."""

    def __init__(self, root: Path, kubelet: EmbeddedKubelet) -> None:
        self.root = root
        self.kubelet = kubelet
        self.sockets = root / KUBELET_DIR.lstrip("/") / DEVICE_PLUGINS
        self.checkpoint = self.sockets / KUBELET_CHECKPOINT

    def plugin_socket(self) -> Path:
        """The agent's one socket: each registration has a name of its own. Raises ValueError without one."""
        (socket_file,) = self.sockets.glob("railside-*.sock")
        return socket_file

    def set_to(self, **changes: object) -> Settings:
        """The settings of the next agent on this bed, with ``changes``; its port is free at this moment."""
        usual = Settings(
            root=str(self.root),
            host_root=str(self.root),
            kubelet_dir=str(self.sockets.parent),
            # One that was free a while ago may be another program's by now.
            listen_port=free_port(),
            mode="ib-shared",
        )
        return msgspec.structs.replace(usual, **changes)

    async def listed(self, count: int = HCAS) -> None:
        """Return when the kubelet counts ``count`` sound seats. Raises TimeoutError."""
        await self.kubelet.until(lambda: self.kubelet.status_of().allocatable == count, timeout_s=_SECONDS)

    def forget(self) -> None:
        """Make it a node on which no agent has been."""
        for folder in (STATE_DIR, RUN_DIR):
            shutil.rmtree(self.root / folder, ignore_errors=True)
        self.checkpoint.unlink(missing_ok=True)


@contextlib.asynccontextmanager
async def bed() -> AsyncIterator[Bed]:
    """A fresh bed."""
    # Short, as a unix socket's path has at most 107 bytes.
    with (
        tempfile.TemporaryDirectory(prefix="rs-", dir=MEMORY if MEMORY.is_dir() else None) as folder,
        tempfile.TemporaryDirectory(prefix="rs-") as disk,
    ):
        root = Path(folder)
        (root / "var").mkdir()
        (root / "var/lib").symlink_to(disk)
        await asyncio.to_thread(write_tree, MANIFEST, root, make_node=NODES.make)
        rng = random.Random(1)  # noqa: S311 -- the same at each run
        kubelet_dir = root / KUBELET_DIR.lstrip("/")
        async with EmbeddedKubelet(kubelet_dir, read_node=NODES.read, rng=rng) as kubelet:
            yield Bed(root, kubelet)


def free_port() -> int:
    """A port of the loopback that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
