"""Publishes the node's record: an RDMANode under the node's name, written when what it says is not true any more.

It must not hold anybody up, nor be needed by anything that keeps pods alive: an API server that is away, or does
not know such records, is asked again ever more slowly.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Never, Protocol

import msgspec
from structlog.typing import FilteringBoundLogger

from railside_agent.publication import Publication, Standing, claim, content, sequence_of
from railside_proto.names import AGENT_COMPONENT, RECORD_KIND, RECORDS
from railside_proto.record import Record
from railside_runtime.cell import Cell, until_any_changes
from railside_runtime.kube_error import CONFLICT, NOT_FOUND, UNAUTHORIZED, KubeError
from railside_runtime.pauses import Pauses

LEAST_PAUSE_SECONDS: Final = 0.25
"""Between two writes: a pod that starts changes several things, one after the other."""

SETTLE_SECONDS: Final = 0.05
"""How long news may settle: what follows from it is news as well."""

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0
"""Between tries that fail."""

ASSERT_SECONDS: Final = 300.0
"""How long a record is taken to stand as it was written: somebody may have deleted or changed it."""

_FORCED: Final = {"fieldManager": AGENT_COMPONENT, "force": "true"}

Seen = Sequence[tuple[Cell[Any], object]]


class Api(Protocol):
    """What is needed of the API server."""

    async def patch(
        self,
        path: str,
        body: object,
        content_type: Literal["application/apply-patch+yaml"],
        query: Mapping[str, str],
    ) -> bytes:
        """Apply an object; what it is then. Raises KubeError."""


class Publisher:
    """The record of one node."""

    def __init__(
        self,
        api: Api,
        node: str,
        log: FilteringBoundLogger,
        *,
        needed: bool,
        report: Callable[[], Record | None],
        sources: Callable[[], Seen],
    ) -> None:
        """Write what ``report`` makes of ``sources``, cells and what they hold, under the name ``node``."""
        self.publication: Cell[Publication] = Cell(Publication(standing=Standing.NOT_TRIED, needed=needed))
        self._api = api
        self._node = node
        self._path = f"{RECORDS}/{node}"
        self._log = log
        self._report = report
        self._sources = sources
        self._tried: Record | None = None
        self._owner: str | None = None
        """UID of the Node that the object belongs to; None where there may be none."""

    async def run(self) -> Never:
        """Write until cancelled. The record of an agent that has ended stays as it was."""
        pauses = Pauses(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        stale_at = 0.0
        while True:
            seen, record = self._sources(), self._report()
            now = asyncio.get_running_loop().time()
            if record is None or (record == self._tried and now < stale_at):
                # Not shorter than the clock can tell.
                await _until_news(seen, max(LEAST_PAUSE_SECONDS, stale_at - now) if record else None)
            elif await self._publish(record):
                pauses.begin_anew()
                stale_at = now + ASSERT_SECONDS * random.uniform(1, 1.5)  # noqa: S311 -- no secret
                await asyncio.sleep(LEAST_PAUSE_SECONDS)
            else:
                # Whatever stands there now: the one before may be gone, or this one be there without an answer.
                stale_at = now
                await asyncio.sleep(pauses.next())

    async def _publish(self, record: Record) -> bool:
        """Whether the API server has ``record`` now."""
        try:
            await self._write(record)
        except KubeError as error:
            self._note(*_judged(error))
            return False
        self._note(Standing.WRITTEN, None)
        return True

    async def _write(self, record: Record) -> None:
        """Raises KubeError."""
        if self._owner == record.node_uid:
            try:
                return await self._write_status(record)
            except KubeError as error:
                if error.status != NOT_FOUND:
                    raise
                # Somebody has deleted it.
        self._owner = None
        answer = await self._apply(self._path, claim(self._node, record.node_uid))
        self._owner = record.node_uid
        self._count(max(self.publication.value.sequence, sequence_of(answer, record.boot_id)))
        return await self._write_status(record)

    async def _write_status(self, record: Record) -> None:
        # Another number for each that is another, as one without an answer may have been taken.
        self._count(self.publication.value.sequence + (record != self._tried))
        self._tried = record
        numbered = msgspec.structs.replace(record, sequence=self.publication.value.sequence)
        await self._apply(f"{self._path}/status", content(self._node, numbered))

    async def _apply(self, path: str, body: object) -> bytes:
        return await self._api.patch(path, body, "application/apply-patch+yaml", _FORCED)

    def _count(self, sequence: int) -> None:
        self.publication.set(msgspec.structs.replace(self.publication.value, sequence=sequence))

    def _note(self, standing: Standing, problem: str | None) -> None:
        """Log what is news: the same answer to the next try is none."""
        before = self.publication.value
        self.publication.set(msgspec.structs.replace(before, standing=standing, problem=problem))
        if problem is not None and problem != before.problem:
            self._log.warning("the node's record cannot be written", detail=problem)
        if problem is None and before.standing is not standing:
            self._log.info("the node's record is written", path=self._path)


async def _until_news(seen: Seen, seconds: float | None) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await until_any_changes(seen)
            await asyncio.sleep(SETTLE_SECONDS)


def _judged(error: KubeError) -> tuple[Standing, str]:
    if error.status == NOT_FOUND:
        return Standing.NO_KIND, f"the API server knows no {RECORD_KIND}: {error.message}"
    passes = error.may_pass or error.status in {CONFLICT, UNAUTHORIZED}
    return Standing.AWAY if passes else Standing.REFUSED, error.message
