"""A thread of one's own for calls that block: one after the other, each with a deadline.

It must not hold the program up: a call that hangs for ever keeps this one thread, and the process ends without it.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """Runs blocking calls in the order in which they came."""

    def __init__(self, name: str) -> None:
        """Start the thread, called ``name``."""
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._ended = False
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def run(self, call: Callable[[], T], deadline_seconds: float, *, however_late: bool = False) -> T:
        """What ``call`` returns or raises. Raises TimeoutError at the deadline.

        A call that has begun goes on after its deadline; one that has not begun by then is dropped, unless it
        must be done ``however_late``.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.post(partial(_settle, future, call, however_late=however_late))
        async with asyncio.timeout(deadline_seconds):
            return await future

    def post(self, call: Callable[[], None]) -> None:
        """Have ``call`` run, and wait for nothing: it hands over what it finds by itself, and must not raise.

        To ask a worker that has ended is a bug, and raises RuntimeError.
        """
        if self._ended:
            raise RuntimeError("the worker has ended")
        self._jobs.put(call)

    def end(self) -> None:
        """Take no more calls; the thread ends behind those that it has, a hanging one as soon as it returns."""
        if not self._ended:
            self._ended = True
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _settle(future: "asyncio.Future[T]", call: Callable[[], T], *, however_late: bool) -> None:
    if however_late or not future.done():
        _hand_over(future, *_outcome(call))


def _outcome(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001 -- it is raised again, where somebody waits for it
        return None, error


def _hand_over(future: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    # A loop that has closed meanwhile waits for nothing any more.
    with contextlib.suppress(RuntimeError):
        future.get_loop().call_soon_threadsafe(settle)
