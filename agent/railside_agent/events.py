"""Tells Kubernetes Events: whoever has something to say leaves it here, and never waits.

It must not hold anybody up. An API server that is away is asked again ever more slowly; what does not fit
meanwhile is dropped by the book, the oldest first.
"""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Literal, Never, Protocol

from structlog.typing import FilteringBoundLogger

from railside_agent.event_book import SERIES_SECONDS, EventBook, Make, Raise, Saying
from railside_runtime.kube_error import CONFLICT, NOT_FOUND, UNAUTHORIZED, KubeError
from railside_runtime.pauses import Pauses

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0


class Api(Protocol):
    """What is needed of the API server."""

    async def post(self, path: str, body: object) -> bytes:
        """Make an object. Raises KubeError."""

    async def patch(self, path: str, body: object, content_type: Literal["application/merge-patch+json"]) -> bytes:
        """Change an object. Raises KubeError."""


class EventTeller:
    """Tells what it is given as Events, in the name of the agent on one node."""

    def __init__(
        self,
        api: Api,
        node: str,
        log: FilteringBoundLogger,
        *,
        series_seconds: float = SERIES_SECONDS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Speak for the agent on ``node``, each sentence once in ``series_seconds``; ``now`` is the wall clock."""
        self._api = api
        self._log = log
        self._now = now
        self._book = EventBook(node, series_seconds)
        self._said = asyncio.Event()
        self._problem: str | None = None

    @property
    def dropped(self) -> int:
        """How often something was said that will never be told."""
        return self._book.dropped

    def tell(self, saying: Saying) -> None:
        """Have ``saying`` told soon, if at all. Returns at once."""
        self._book.say(saying, self._now())
        self._said.set()

    async def run(self) -> Never:
        """Tell what there is until cancelled; then what is left is lost."""
        loop = asyncio.get_running_loop()
        pauses = Pauses(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while True:
            self._said.clear()
            step = self._book.due(loop.time())
            if step is None:
                await self._something_due(self._book.wait_seconds(loop.time()))
            elif await self._settled(step):
                pauses.begin_anew()
            else:
                await asyncio.sleep(pauses.next())

    async def _something_due(self, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._said.wait()

    async def _settled(self, step: Make | Raise) -> bool:
        """Whether the API server took or refused ``step``; False where it is not to be asked for a while."""
        try:
            await self._send(step)
        except KubeError as error:
            return self._judge(step, error)
        self._book.told(step, asyncio.get_running_loop().time())
        self._complain(None)
        return True

    async def _send(self, step: Make | Raise) -> None:
        path = f"/api/v1/namespaces/{step.namespace}/events"
        match step:
            case Make():
                await self._api.post(path, step.body)
            case Raise():
                await self._api.patch(f"{path}/{step.name}", step.body, "application/merge-patch+json")

    def _judge(self, step: Make | Raise, error: KubeError) -> bool:
        at = asyncio.get_running_loop().time()
        match step, error.status:
            case Make(), status if status == CONFLICT:
                # An earlier try was taken and its answer lost.
                self._book.told(step, at)
            case Raise(), status if status == NOT_FOUND:
                self._book.forgotten(step)
            case _, status if status == UNAUTHORIZED or error.may_pass:
                self._complain(error.message)
                return False
            case _:
                self._complain(error.message)
                self._book.refused(step, at)
        return True

    def _complain(self, problem: str | None) -> None:
        """Log it once."""
        if problem is not None and problem != self._problem:
            self._log.warning("an event could not be told", detail=problem)
        self._problem = problem
