"""Has the scheduler try refused pods again: it touches a node that is fit for one by now.

It must not touch anything but one annotation of the node, nor decide which node.
"""

import asyncio
import itertools
import secrets
from collections.abc import Callable
from typing import Final, Never, Protocol

from structlog.typing import FilteringBoundLogger

from railside_proto.names import WAKE
from railside_runtime.cell import Cell
from railside_runtime.kube import Patch
from railside_runtime.kube_error import NOT_FOUND, KubeError

PAUSE_SECONDS: Final = 0.2
"""Between two touches: the scheduler tries all refused pods at each."""

RETRY_SECONDS: Final = 2.0
"""After a touch that failed."""


class Api(Protocol):
    """What the waker needs of the API server."""

    async def patch(self, path: str, body: object, content_type: Patch) -> bytes:
        """Change an object. Raises KubeError."""


class Waker:
    """Touches nodes."""

    def __init__(
        self,
        api: Api,
        moved: Cell[int],
        fit: Callable[[], str | None],
        log: FilteringBoundLogger,
        *,
        pause_seconds: float = PAUSE_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """Ask ``fit`` for a node each time that ``moved`` has changed."""
        self._api = api
        self._moved = moved
        self._fit = fit
        self._log = log
        self._pause_seconds = pause_seconds
        self._retry_seconds = retry_seconds
        # Another extender, or this one before its restart, may have left a value: an equal one changes nothing.
        self._touches = map(f"{secrets.token_hex(4)}-{{}}".format, itertools.count(1))

    async def run(self) -> Never:
        """Touch until cancelled."""
        async for _ in self._moved.changes():
            node = self._fit()
            while node is not None:
                touched = await self._touch(node)
                await asyncio.sleep(self._pause_seconds if touched else self._retry_seconds)
                node = None if touched else node
        raise AssertionError("a cell's changes have no end")

    async def _touch(self, node: str) -> bool:
        """Whether it was touched, or is not there any more."""
        change = {"metadata": {"annotations": {WAKE: next(self._touches)}}}
        try:
            await self._api.patch(f"/api/v1/nodes/{node}", change, "application/merge-patch+json")
        except KubeError as error:
            self._log.warning("refused pods are not tried again at once", node=node, detail=error.message)
            return error.status == NOT_FOUND
        self._log.info("refused pods are tried again", node=node)
        return True
