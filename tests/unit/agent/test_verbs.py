import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
from tests.unit.builders import LogLines
from tests.unit.running import running

from railside_agent.verbs import DEVICE_FATAL, VerbsError, VerbsEvents

_PORT_ERR = 10
_LONGEST_HANG_SECONDS = 5


class _Handle:
    """A device that is open, to which a test sends events."""

    def __init__(self) -> None:
        self.descriptor, self._write = os.pipe()
        os.set_blocking(self.descriptor, False)
        self.closed = threading.Event()

    def send(self, kind: int) -> None:
        os.write(self._write, bytes([kind]))

    def break_off(self) -> None:
        os.close(self._write)

    def events(self) -> Sequence[int]:
        kinds = os.read(self.descriptor, 100)
        if not kinds:
            raise VerbsError("broken")
        return list(kinds)

    def close(self) -> None:
        os.close(self.descriptor)
        self.closed.set()


class _Verbs:
    """Opens every device, but for those that refuse or hang."""

    def __init__(self) -> None:
        self.refusing: set[str] = set()
        self.hanging: dict[str, threading.Event] = {}
        self.asked: list[str] = []
        self.handles: dict[str, list[_Handle]] = {}

    def open(self, device: str) -> _Handle:
        self.asked.append(device)
        if device in self.hanging:
            self.hanging[device].wait(_LONGEST_HANG_SECONDS)
        if device in self.refusing:
            raise VerbsError("cannot be opened; verbs need a privileged pod")
        handle = _Handle()
        self.handles.setdefault(device, []).append(handle)
        return handle


class _News:
    """Notes which devices have news."""

    def __init__(self) -> None:
        self.devices: list[str] = []
        self._came = asyncio.Event()

    def __call__(self, device: str) -> None:
        self.devices.append(device)
        self._came.set()

    async def count(self, number: int) -> None:
        while len(self.devices) < number:
            self._came.clear()
            await self._came.wait()


@pytest.fixture
def verbs() -> _Verbs:
    return _Verbs()


@pytest.fixture
def news() -> _News:
    return _News()


@pytest.fixture
def events(verbs: _Verbs, news: _News, written: LogLines) -> VerbsEvents:
    return VerbsEvents(lambda: verbs, written.log, look_again=news)


@contextlib.asynccontextmanager
async def _running(events: VerbsEvents, *devices: str) -> AsyncIterator[None]:
    events.follow(devices)
    async with running(events), asyncio.timeout(_LONGEST_HANG_SECONDS):
        yield


async def _opened(events: VerbsEvents, *devices: str) -> None:
    await events.opened.until(lambda opened: opened == set(devices))


async def _closed(handle: _Handle) -> bool:
    return await asyncio.to_thread(handle.closed.wait, _LONGEST_HANG_SECONDS)


async def test_what_a_card_says_asks_for_a_look_at_it(events: VerbsEvents, verbs: _Verbs, news: _News) -> None:
    """An event has its device looked at, as has the opening, before which nobody told."""
    async with _running(events, "mlx5_0", "mlx5_1"):
        await _opened(events, "mlx5_0", "mlx5_1")
        await news.count(2)
        verbs.handles["mlx5_1"][0].send(_PORT_ERR)
        await news.count(3)
    assert (sorted(news.devices[:2]), news.devices[2:]) == (["mlx5_0", "mlx5_1"], ["mlx5_1"])


async def test_a_device_with_a_fatal_error_is_closed_at_once(
    events: VerbsEvents, verbs: _Verbs, news: _News
) -> None:
    """A device that is being taken out is let go: some drivers wait for that."""
    async with _running(events, "mlx5_0"):
        await _opened(events, "mlx5_0")
        verbs.handles["mlx5_0"][0].send(DEVICE_FATAL)
        await news.count(2)
        assert await _closed(verbs.handles["mlx5_0"][0])
        await _opened(events)


async def test_a_device_that_breaks_off_is_closed(events: VerbsEvents, verbs: _Verbs, news: _News) -> None:
    """A descriptor that fails is not asked again and again."""
    async with _running(events, "mlx5_0"):
        await _opened(events, "mlx5_0")
        verbs.handles["mlx5_0"][0].break_off()
        assert await _closed(verbs.handles["mlx5_0"][0])
    assert news.devices == ["mlx5_0", "mlx5_0"]


async def test_a_device_that_is_gone_is_closed(events: VerbsEvents, verbs: _Verbs) -> None:
    """What is not followed any more is closed, what is still there stays open; at the end all are closed."""
    async with _running(events, "mlx5_0", "mlx5_1"):
        await _opened(events, "mlx5_0", "mlx5_1")
        events.follow(("mlx5_1",))
        assert await _closed(verbs.handles["mlx5_0"][0])
        assert not verbs.handles["mlx5_1"][0].closed.is_set()
    assert await _closed(verbs.handles["mlx5_1"][0])


async def test_a_device_that_is_gone_while_it_is_opened_is_closed(events: VerbsEvents, verbs: _Verbs) -> None:
    """An opening that ends when nobody waits for it any more leaves nothing open."""
    hanging = verbs.hanging["mlx5_0"] = threading.Event()
    async with _running(events, "mlx5_0", "mlx5_1"):
        await _opened(events, "mlx5_1")
        while "mlx5_0" not in verbs.asked:
            await asyncio.to_thread(threading.Event().wait, 0.001)
        events.follow(("mlx5_1",))
        hanging.set()
        while "mlx5_0" not in verbs.handles:
            await asyncio.to_thread(threading.Event().wait, 0.001)
        assert await _closed(verbs.handles["mlx5_0"][0])


async def test_a_device_that_cannot_be_opened_is_told_once(
    events: VerbsEvents, verbs: _Verbs, written: LogLines
) -> None:
    """In a pod without the right, one sentence says so for all devices, and polling does the work."""
    verbs.refusing = {"mlx5_0", "mlx5_1"}
    async with _running(events, "mlx5_0", "mlx5_1", "mlx5_2"):
        await _opened(events, "mlx5_2")
        await events.problem.until(lambda problem: problem is not None)
    assert written.events == ["devices are asked, and not heard"]
    assert written.lines[0]["detail"] == "cannot be opened; verbs need a privileged pod"


async def test_without_the_library_it_is_told_and_nothing_ends(written: LogLines, news: _News) -> None:
    """A missing library is one sentence, and the task lives on."""

    def load() -> _Verbs:
        raise VerbsError("pyverbs cannot be loaded")

    events = VerbsEvents(load, written.log, look_again=news)
    async with _running(events, "mlx5_0"):
        assert await events.problem.until(lambda problem: problem is not None) == "pyverbs cannot be loaded"
    assert (written.events, news.devices) == (["devices are asked, and not heard"], [])


@pytest.mark.parametrize("spoil", [_Handle.break_off, lambda handle: handle.send(DEVICE_FATAL)])
async def test_a_device_that_is_still_there_is_opened_again(
    verbs: _Verbs, news: _News, written: LogLines, spoil: Callable[[_Handle], None]
) -> None:
    """A device that has recovered by itself is heard again after a while, and the problem is over."""
    events = VerbsEvents(lambda: verbs, written.log, look_again=news, retry_seconds=0.05)
    verbs.refusing = {"mlx5_0"}
    async with _running(events, "mlx5_0"):
        await events.problem.until(lambda problem: problem is not None)
        verbs.refusing = set()
        await _opened(events, "mlx5_0")
        assert events.problem.value is None
        spoil(verbs.handles["mlx5_0"][0])
        await _opened(events)
        await _opened(events, "mlx5_0")
    assert len(verbs.handles["mlx5_0"]) == 2
