"""Hears from the cards themselves that a port or a device has changed, faster than by asking: optional.

It needs a device node that it may open, hence a privileged pod, and it does without where there is none. It must
not decide anything by what a card says, which is: look again. It must not keep a device open that goes, as some
drivers wait for that before they let it go.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final, Never, Protocol

from structlog.typing import FilteringBoundLogger

from railside_runtime.cell import Cell
from railside_runtime.worker import Worker

RETRY_SECONDS: Final = 30.0
"""When to open a device again that could not be opened, or had a fatal error and is still there."""

OPEN_DEADLINE_SECONDS: Final = 5.0

DEVICE_FATAL: Final = 8
"""IBV_EVENT_DEVICE_FATAL (infiniband/verbs.h): also sent when the device is being taken out."""


class VerbsError(Exception):
    """Raised by a ``Verbs`` and its handles where the library or a device cannot be used; its text says why."""


class Handle(Protocol):
    """One device that is open."""

    @property
    def descriptor(self) -> int:
        """Readable when there are events."""

    def events(self) -> Sequence[int]:
        """The kinds of all events that wait, acknowledged. Does not block. Raises VerbsError if it has broken."""

    def close(self) -> None:
        """Give the device back. Blocks, and raises nothing."""


class Verbs(Protocol):
    """The library."""

    def open(self, device: str) -> Handle:
        """Open the device of that name. Blocks. Raises VerbsError."""


class VerbsEvents:
    """The events of all devices that are followed."""

    def __init__(
        self,
        load: Callable[[], Verbs],
        log: FilteringBoundLogger,
        *,
        look_again: Callable[[str], None],
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """Use the library that ``load`` gives or raises VerbsError; tell ``look_again`` which device has news."""
        self._load = load
        self._log = log
        self._look_again = look_again
        self._retry_seconds = retry_seconds
        self._followed: Cell[frozenset[str]] = Cell(frozenset())
        self._problems: dict[str, str] = {}
        self.opened: Cell[frozenset[str]] = Cell(frozenset())
        """The devices that are heard."""
        self.problem: Cell[str | None] = Cell(None)
        """Why some devices are not heard; they are asked all the same, every second."""

    def follow(self, devices: Collection[str]) -> None:
        """Hear ``devices`` from now on, and close all others."""
        self._followed.set(frozenset(devices))

    async def run(self) -> Never:
        """Hear until cancelled."""
        try:
            verbs = await asyncio.to_thread(self._load)
        except VerbsError as error:
            self._say("", str(error))
            await asyncio.Event().wait()
            raise
        tasks_by_name: dict[str, asyncio.Task[Never]] = {}
        async with asyncio.TaskGroup() as tasks:
            async for followed in self._followed.changes():
                for name in tasks_by_name.keys() - followed:
                    tasks_by_name.pop(name).cancel()
                for name in followed - tasks_by_name.keys():
                    tasks_by_name[name] = tasks.create_task(self._keep_open(name, verbs), name=f"verbs of {name}")
        raise AssertionError("a cell's changes never end")

    async def _keep_open(self, name: str, verbs: Verbs) -> Never:
        card = _Card(name, verbs)
        try:
            while True:
                await self._hear(card)
                await asyncio.sleep(self._retry_seconds)
        finally:
            card.end()
            self._say(name, None)

    async def _hear(self, card: "_Card") -> None:
        """Hear ``card`` until it breaks, or not at all."""
        try:
            handle = await card.open()
        except VerbsError as error:
            self._say(card.name, str(error))
            return
        self._say(card.name, None)
        broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(handle.descriptor, self._drain, card.name, handle, broken)
        self.opened.set(self.opened.value | {card.name})
        try:
            # Of what changed before nobody has told.
            self._look_again(card.name)
            await broken
        finally:
            asyncio.get_running_loop().remove_reader(handle.descriptor)
            card.close()
            self.opened.set(self.opened.value - {card.name})

    def _drain(self, name: str, handle: Handle, broken: "asyncio.Future[None]") -> None:
        try:
            is_over = DEVICE_FATAL in handle.events()
        except VerbsError:
            is_over = True
        if is_over and not broken.done():
            broken.set_result(None)
        self._look_again(name)

    def _say(self, name: str, problem: str | None) -> None:
        before = set(self._problems.values())
        self._problems.pop(name, None)
        if problem is not None:
            self._problems[name] = problem
        if problem is not None and problem not in before:
            self._log.warning("devices are asked, and not heard", detail=problem)
        self.problem.set("; ".join(sorted(set(self._problems.values()))) or None)


class _Card:
    """One device, and the thread in which it is opened and closed: either may hang."""

    def __init__(self, name: str, verbs: Verbs) -> None:
        self.name = name
        self._verbs = verbs
        self._worker = Worker(f"verbs-{name}")
        self._handles: list[Handle] = []
        """Used by that thread alone. An opening that nobody waits for any more ends here too, and is closed."""

    async def open(self) -> Handle:
        """The device, open. Raises VerbsError."""
        try:
            return await self._worker.run(self._open, OPEN_DEADLINE_SECONDS)
        except TimeoutError:
            self.close()
            raise VerbsError(f"{self.name} could not be opened within {OPEN_DEADLINE_SECONDS:g} s") from None

    def close(self) -> None:
        """Close what is open, and what is just being opened, without waiting for it."""
        self._worker.post(self._close)

    def end(self) -> None:
        self.close()
        self._worker.end()

    def _open(self) -> Handle:
        handle = self._verbs.open(self.name)
        self._handles.append(handle)
        return handle

    def _close(self) -> None:
        while self._handles:
            self._handles.pop().close()
