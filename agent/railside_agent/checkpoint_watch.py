"""Reads the kubelet's checkpoint of what it has dealt, each time that the kubelet writes it, and when it is asked.

It must not understand the checkpoint, and must not forget what it has read when a later read fails: containers
hold what they hold, whether the file can be read or not.
"""

import asyncio
from pathlib import Path
from typing import Final, Never

from structlog.typing import FilteringBoundLogger

from railside_agent.folder_watch import FolderWatch
from railside_agent.whole_files import read_whole
from railside_proto.names import DEVICE_PLUGINS, KUBELET_CHECKPOINT
from railside_runtime.cell import Cell
from railside_runtime.worker import Worker

LARGEST_CHECKPOINT_BYTES: Final = 1 << 26
"""Far beyond that of a full node; so that an odd file does not take the node's memory."""

READ_DEADLINE_SECONDS: Final = 2.0

RETRY_SECONDS: Final = 5.0


class CheckpointWatch:
    """The checkpoint's content, as it was last read."""

    def __init__(
        self,
        kubelet_dir: Path,
        log: FilteringBoundLogger,
        *,
        deadline_seconds: float = READ_DEADLINE_SECONDS,
        largest_bytes: int = LARGEST_CHECKPOINT_BYTES,
    ) -> None:
        """Read in the folder of the kubelet at ``kubelet_dir``; nothing is read before ``run`` or ``read_now``."""
        self._folder = kubelet_dir / DEVICE_PLUGINS
        self._log = log
        self._deadline_seconds = deadline_seconds
        self._largest_bytes = largest_bytes
        self._hangs = f"the disk did not answer within {deadline_seconds:g} s"
        self._worker = Worker("checkpoint")
        self.latest: Cell[bytes | None] = Cell(None)
        """The last good content, which may be garbage in itself: empty where there is no file, as nothing was ever
        dealt; None before the first read that succeeded."""
        self.problem: Cell[str | None] = Cell(None)
        """Why the last read failed; None while reads succeed."""

    async def run(self) -> Never:
        """Read at once, and then whenever the file has changed."""
        async with FolderWatch(self._folder, self._log, only={KUBELET_CHECKPOINT}) as watch:
            while True:
                await self.read_now()
                await watch.changed()

    async def read_now(self) -> bytes | None:
        """The content as it is now, or the last good one where that cannot be read; tells all who follow."""
        try:
            content = await self._worker.run(self._read, self._deadline_seconds)
        except TimeoutError:
            self._fail(self._hangs)
        except OSError as error:
            self._fail(str(error))
        else:
            self.problem.set(None)
            self.latest.set(content)
        return self.latest.value

    async def read_patiently(self) -> bytes | None:
        """As ``read_now``, but a disk that hangs is waited for: ids that pods hold must not leave the list."""
        while True:
            content = await self.read_now()
            if self.problem.value != self._hangs:
                return content
            await asyncio.sleep(RETRY_SECONDS)

    def _fail(self, problem: str) -> None:
        if problem != self.problem.value:
            self._log.warning("the kubelet's checkpoint could not be read", detail=problem)
        self.problem.set(problem)

    def _read(self) -> bytes:
        try:
            # The kubelet renames whole files into place: an empty one is a disk's accident.
            return read_whole(self._folder / KUBELET_CHECKPOINT, least_bytes=1, most_bytes=self._largest_bytes)
        except FileNotFoundError:
            return b""
