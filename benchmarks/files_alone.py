"""The file operations of one start without anything else: the floor of PreStartContainer.

It must not call code of the agent but for the making of device nodes.
"""

import itertools
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.bed import NODES
from railside_proto.machine import DeviceNode

_NODES: Final = (
    DeviceNode(name="uverbs0", major=231, minor=192),
    DeviceNode(name="rdma_cm", major=10, minor=58),
)
_TEXTS: Final = {"hcas": "mlx5_0\n", "nccl.conf": "NCCL_IB_HCA==mlx5_0\n", "allocation.json": "{}" * 300}


class FilesAlone:
    """Starts of containers that nobody decides on, each in a folder of its own."""

    def __init__(self, root: Path, checkpoint: Path) -> None:
        self._root = root
        self._checkpoint = checkpoint
        self._numbers = itertools.count()

    async def run(self) -> None:
        """One start. It blocks the loop, as nothing else waits there."""
        self._checkpoint.read_bytes()
        folder = self._root / str(next(self._numbers))
        (folder / "info").mkdir(parents=True)
        self._lay_out(folder, Path(tempfile.mkdtemp(prefix="start-", dir=folder)))

    def _lay_out(self, folder: Path, generation: Path) -> None:
        for name, text in _TEXTS.items():
            fresh = folder / "info" / f".{name}"
            fresh.write_text(text, encoding="utf-8")
            fresh.chmod(0o644)
            fresh.replace(folder / "info" / name)
        for node in _NODES:
            NODES.make(generation / node.name, node)
        generation.chmod(0o755)
        link = folder / ".link"
        link.symlink_to(generation.name)
        link.replace(folder / "ib")
