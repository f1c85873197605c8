"""Tells that something in a folder has changed, and never what: whoever waits looks again.

It must not read the folder's files.
"""

import asyncio
import contextlib
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from asyncinotify import Inotify, Mask
from structlog.typing import FilteringBoundLogger

POLL_SECONDS: Final = 0.2
"""How often to look where the kernel grants no watch; the kubelet leaves 1.2 s from its start to the list."""

LOOK_ANYWAY_SECONDS: Final = 5.0
"""An event may be lost, and a watched folder may be replaced."""

_CHANGES: Final = (
    Mask.CREATE | Mask.DELETE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.ATTRIB
)
_FOLDER_GONE: Final = Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.IGNORED | Mask.UNMOUNT


class FolderWatch:
    """An inotify watch, or polling while there is none to be had (no folder yet, or the limit is used up)."""

    def __init__(self, folder: Path, log: FilteringBoundLogger, *, only: Collection[str] | None = None) -> None:
        """Watch ``folder`` from ``async with`` on: the files in it, or ``only`` those of these names.

        Of those also the content counts, whether they are written in place or renamed onto.
        """
        self._folder = folder
        self._log = log
        self._only = only
        self._inotify: Inotify | None = None
        self._told = False

    async def __aenter__(self) -> Self:
        """Take a watch if there is one."""
        self._take()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the watch back."""
        self._give_back()

    async def changed(self) -> None:
        """Return when something may have changed, at the latest after a while. One may wait at a time."""
        if self._inotify is None:
            await asyncio.sleep(POLL_SECONDS)
            self._take()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_ANYWAY_SECONDS):
                await self._event(self._inotify)

    async def _event(self, inotify: Inotify) -> None:
        """Return at the first event that counts."""
        while True:
            event = await inotify.get()
            if event.mask & _FOLDER_GONE:
                return self._give_back()
            if self._only is None or event.mask & Mask.Q_OVERFLOW or str(event.name) in self._only:
                return None

    def _take(self) -> None:
        try:
            self._inotify = Inotify()
            self._inotify.add_watch(self._folder, _CHANGES if self._only is None else _CHANGES | Mask.CLOSE_WRITE)
        except OSError as error:
            self._give_back()
            if not self._told:
                self._log.warning(
                    "the folder is polled, as it cannot be watched",
                    folder=str(self._folder),
                    detail=error.strerror,
                )
            self._told = True

    def _give_back(self) -> None:
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None
