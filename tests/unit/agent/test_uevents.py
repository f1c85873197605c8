import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.builders import LogLines
from tests.unit.running import running

from railside_agent.uevents import RETRY_SECONDS, Source, Uevents, kernel_socket

_ADD = b"add@/devices/x\0ACTION=add\0DEVPATH=/devices/x\0SUBSYSTEM=infiniband\0"
_VETH = _ADD.replace(b"infiniband", b"net")
_A_DEVICE = Path("/sys/devices/virtual/mem/null/uevent")


class _Looks:
    """Counts how often it was asked to look again."""

    def __init__(self) -> None:
        self.count = 0
        self._asked = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._asked.set()

    async def asked(self, times: int) -> None:
        async with asyncio.timeout(5):
            while self.count < times:
                self._asked.clear()
                await self._asked.wait()


class _Pair:
    """A source that a test sends to, and that can fail."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.failures: list[int] = []
        self.sender: object = (0, 1)

    def fileno(self) -> int:
        return self._ours.fileno()

    def recvfrom(self, size: int, /) -> tuple[bytes, object]:
        if self.failures:
            number = self.failures.pop()
            raise OSError(number, os.strerror(number))
        return self._ours.recvfrom(size)[0], self.sender

    def close(self) -> None:
        self._ours.close()
        self.theirs.close()


def _never(number: int) -> Callable[[], Source]:
    def refuse() -> Source:
        raise OSError(number, os.strerror(number))

    return refuse


async def test_what_concerns_devices_asks_for_a_look(written: LogLines) -> None:
    """A new HCA asks for a look at once, beside the one that opening the source asks for."""
    looks, pair = _Looks(), _Pair()
    uevents = Uevents(looks, written.log, open_source=lambda: pair)
    async with running(uevents):
        await looks.asked(1)
        assert uevents.source_up.value
        pair.theirs.send(_ADD)
        await looks.asked(2)
    assert (dict(uevents.counts), written.events) == ({"heard": 1}, [])


async def test_what_does_not_concern_devices_asks_for_nothing(written: LogLines) -> None:
    """Messages of other subsystems and garbage are counted and dropped; what follows them is heard."""
    looks, pair = _Looks(), _Pair()
    uevents = Uevents(looks, written.log, open_source=lambda: pair)
    async with running(uevents):
        await looks.asked(1)
        for message in (_VETH, b"garbage", _ADD):
            pair.theirs.send(message)
        await looks.asked(2)
    assert (looks.count, dict(uevents.counts)) == (2, {"heard": 3, "garbage": 1})


async def test_a_message_that_is_not_of_the_kernel_costs_a_look_and_is_counted(written: LogLines) -> None:
    """Nothing is believed of a message, so one of somebody else asks for a look as well, and is counted."""
    looks, pair = _Looks(), _Pair()
    pair.sender = (4711, 1)
    uevents = Uevents(looks, written.log, open_source=lambda: pair)
    async with running(uevents):
        await looks.asked(1)
        pair.theirs.send(_ADD)
        await looks.asked(2)
    assert dict(uevents.counts) == {"heard": 1, "foreign": 1}


async def test_lost_messages_ask_for_a_look(written: LogLines) -> None:
    """A buffer that overflowed has dropped messages: look again, and go on hearing."""
    looks, pair = _Looks(), _Pair()
    uevents = Uevents(looks, written.log, open_source=lambda: pair)
    async with running(uevents):
        await looks.asked(1)
        pair.failures.append(errno.ENOBUFS)
        pair.theirs.send(_VETH)
        await looks.asked(2)
        pair.theirs.send(_ADD)
        await looks.asked(3)
        assert uevents.source_up.value
    assert dict(uevents.counts) == {"overflow": 1, "heard": 2}


@pytest.mark.looptime
@pytest.mark.parametrize("number", [errno.EPERM, errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT, errno.EMFILE])
async def test_without_a_source_the_resync_is_alone_and_that_is_told_once(written: LogLines, number: int) -> None:
    """A kernel or sandbox without such sockets ends nothing: one warning, and a source that is down (B-DP-42)."""
    looks = _Looks()
    uevents = Uevents(looks, written.log, open_source=_never(number))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(uevents.run(), 10 * RETRY_SECONDS)
    assert (uevents.source_up.value, looks.count) == (False, 0)
    assert written.events == ["changes of devices are seen at resyncs only"]


@pytest.mark.looptime
async def test_a_source_that_breaks_is_opened_again(written: LogLines) -> None:
    """After a while a broken source is replaced, and a look makes up for what was missed (B-DP-42)."""
    looks, pairs = _Looks(), [_Pair(), _Pair()]
    first, second = pairs
    uevents = Uevents(looks, written.log, open_source=lambda: pairs.pop(0))
    running = asyncio.create_task(uevents.run())
    await uevents.source_up.until(bool)
    first.failures.append(errno.EIO)
    first.theirs.send(_ADD)
    await uevents.source_up.until(lambda up: not up)
    await uevents.source_up.until(bool)
    assert (looks.count, first.fileno()) == (2, -1)
    running.cancel()
    await asyncio.wait([running])
    assert written.events == ["changes of devices are seen at resyncs only", "changes of devices are heard again"]
    assert second.fileno() == -1


async def test_the_real_kernel_is_heard(written: LogLines) -> None:
    """A message of the real kernel is understood; where a test may not cause one, the same bytes stand in."""
    looks, source = _Looks(), _real_or_pair()
    uevents = Uevents(looks, written.log, open_source=lambda: source)
    async with running(uevents):
        await looks.asked(1)
        while not uevents.counts["heard"]:
            await asyncio.to_thread(_cause_a_message, source)
    assert (uevents.counts["garbage"], uevents.counts["foreign"]) == (0, 0)


def _real_or_pair() -> Source:
    if os.access(_A_DEVICE, os.W_OK):
        with contextlib.suppress(OSError):
            return kernel_socket()
    return _Pair()


def _cause_a_message(source: Source) -> None:
    if isinstance(source, _Pair):
        source.theirs.send(_VETH)
    else:
        _A_DEVICE.write_text("change", encoding="ascii")
