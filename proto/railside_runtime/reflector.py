"""Keeps a picture of some of the API server's objects up to date: a list, then a watch from there on, for ever.

While the server is away the last picture stays, with the problem beside it, and the server is asked again ever
more slowly. It must not read a meaning into an absence: what is not in the picture was deleted, or not seen yet.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, Generic, Never, Protocol, TypeVar

import msgspec
from structlog.typing import FilteringBoundLogger

from railside_proto.decoding import UNDECODABLE
from railside_runtime.cell import Cell
from railside_runtime.kube_error import GONE, UNREACHED, KubeError
from railside_runtime.pauses import Pauses
from railside_runtime.picture import LostTrack, Page, Picture, read_page

T = TypeVar("T")

Query = Mapping[str, str]

MOST_PAGES: Final = 1000
"""A hundred times what a node's pods fill."""


class Lines(Protocol):
    """An open watch."""

    async def line(self, deadline_seconds: float) -> bytes | None:
        """The next line, None at the end. Raises KubeError."""


class Api(Protocol):
    """What the reflector needs of the API server."""

    async def get(self, path: str, query: Query) -> bytes:
        """What is at ``path``. Raises KubeError."""

    def watch(self, path: str, query: Query) -> AbstractAsyncContextManager[Lines]:
        """An open watch. Entering raises KubeError."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long, in seconds."""

    first_pause: float = 0.5
    """Before the second try; each further one waits twice as long."""
    longest_pause: float = 30.0
    settled: float = 10.0
    """What lasted so long was no failed try."""
    watch: float = 300.0
    """After this, or up to twice as long, the server ends a watch by itself."""
    idle: float = 180.0
    """A connection that is silent for so long is half-open: the server sends a bookmark each minute."""
    page: int = 500
    """Objects of one page of a list."""


class Seen(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The picture at one moment."""

    objects: Mapping[str, T]
    """By UID."""
    gone: Mapping[str, T] = {}
    """Objects that were deleted of late, as they were at the very end."""
    synced: bool = False
    """Whether it was ever whole."""
    problem: str | None = None
    """Why it may be old, or lack an object that cannot be read."""


class Reflector(Generic[T]):
    """The picture of the objects at one path."""

    def __init__(
        self,
        api: Api,
        path: str,
        query: Query,
        kind: type[T],
        *,
        log: FilteringBoundLogger,
        pace: Pace | None = None,
        changed: Callable[[Mapping[str, T | None]], None] | None = None,
    ) -> None:
        """Read objects as ``kind``; ``query`` holds the selectors.

        Where there is a ``changed``, it is given what is other than before, by UID, None for what is gone, and
        ``seen`` holds no objects: a copy of thousands at each event would cost more than all else.
        """
        self.seen: Cell[Seen[T]] = Cell(Seen(objects={}))
        self._api = api
        self._path = path
        self._query = dict(query)
        self._log = log
        self._pace = pace or Pace()
        self._changed = changed
        self._picture: Picture[T] = Picture(kind, keeps_changes=changed is not None)

    async def run(self) -> Never:
        """Keep the picture up to date until cancelled."""
        loop = asyncio.get_running_loop()
        pauses = Pauses(self._pace.first_pause, self._pace.longest_pause)
        while True:
            started = loop.time()
            try:
                await self._follow()
            except KubeError as error:
                self._tell(error.message)
            if loop.time() - started >= self._pace.settled:
                pauses.begin_anew()
            await asyncio.sleep(pauses.next())

    async def _follow(self) -> None:
        """A list, where one is needed, and one watch until its end. Raises KubeError."""
        if self._picture.version is None:
            await self._list()
        try:
            async with self._api.watch(self._path, self._watch_query()) as lines:
                self._publish()
                lost = await self._read(lines)
        except KubeError as error:
            if not error.may_pass:
                self._picture.version = None
            if error.status != GONE:
                raise
        else:
            self._accept(lost)

    def _accept(self, lost: LostTrack | None) -> None:
        """Go on after the end of a watch. Raises KubeError where it ended for a reason that is to be told."""
        if lost is None:
            return
        self._picture.version = None
        if not lost.expired:
            raise KubeError(UNREACHED, lost.why)

    def _watch_query(self) -> Query:
        return {
            **self._query,
            "resourceVersion": self._picture.version or "",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(self._pace.watch * random.uniform(1, 2)))),  # noqa: S311 -- no secret
        }

    async def _list(self) -> None:
        """Draw the picture anew. Raises KubeError."""
        query = {**self._query, "limit": str(self._pace.page)}
        # At first the server's cache will do, which spares etcd when many agents start. It may be behind: later
        # lists, which follow what was seen already, ask for the truth.
        first = query if self.seen.value.synced else {**query, "resourceVersion": "0"}
        pages = [await self._page(first)]
        while pages[-1].metadata.more:
            if len(pages) >= MOST_PAGES:
                raise KubeError(UNREACHED, f"the list has no end: {MOST_PAGES} pages were read")
            pages.append(await self._page({**query, "continue": pages[-1].metadata.more}))
        try:
            self._picture.replace(pages)
        except UNDECODABLE as error:
            raise _nonsense(error) from error
        self._show(synced=True)

    async def _page(self, query: Query) -> Page:
        try:
            return read_page(await self._api.get(self._path, query))
        except UNDECODABLE as error:
            raise _nonsense(error) from error

    async def _read(self, lines: Lines) -> LostTrack | None:
        """Take lines in until the watch ends. One that breaks has ended: opening the next tells what is wrong."""
        while True:
            try:
                line = await lines.line(self._pace.idle)
            except KubeError:
                return None
            if line is None:
                return None
            lost = self._picture.apply(line)
            if lost is not None:
                return lost
            self._publish()

    def _publish(self) -> None:
        """What is known now, by an open watch."""
        self._tell(self._picture.complaint)
        self._show(synced=self.seen.value.synced)

    def _show(self, *, synced: bool) -> None:
        if self._changed is not None:
            changes = self._picture.take_changes()
            if changes:
                self._changed(changes)
            self.seen.set(msgspec.structs.replace(self.seen.value, synced=synced))
            return
        shown = {"objects": self._picture.objects, "gone": self._picture.gone, "synced": synced}
        self.seen.set(msgspec.structs.replace(self.seen.value, **shown))

    def _tell(self, problem: str | None) -> None:
        """Say what is wrong, or that nothing is any more; the same again is no news."""
        if problem == self.seen.value.problem:
            return
        if problem is None:
            self._log.info("the API server is watched again", path=self._path)
        else:
            self._log.warning("the API server's objects may be old", path=self._path, detail=problem)
        self.seen.set(msgspec.structs.replace(self.seen.value, problem=problem))


def _nonsense(error: Exception) -> KubeError:
    return KubeError(UNREACHED, f"the answer is no list of objects: {error}")
