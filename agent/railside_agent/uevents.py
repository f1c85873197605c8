"""Hears the kernel say that devices come, go and change, and passes on one thing: look again.

It must not believe a message any further than that. Only the kernel, and who may administer the network of this
namespace, can send here; a test bed sends by other ways and in libudev's form. Whoever it is, a message costs one
look at most, and many of them are made few by the debounce behind ``look_again``: so all are taken, and those not
of the kernel are counted.

Messages can be lost: devices of another network namespace send none here, and a full buffer drops them. So whoever
looks also looks from time to time without having been told.
"""

import asyncio
import contextlib
import errno
import socket
from collections import Counter
from collections.abc import Callable
from typing import Final, Never, Protocol

from structlog.typing import FilteringBoundLogger

from railside_agent.uevent_text import concerns_devices, parse_uevent
from railside_runtime.cell import Cell

RETRY_SECONDS: Final = 30.0
"""How long to go without the source before it is asked for again: the resync does its work meanwhile."""

BUFFER_BYTES: Final = 1 << 21
"""A machine that starts, or a card with hundreds of functions, sends thousands of messages at once."""

_NETLINK_KOBJECT_UEVENT: Final = 15
_KERNEL_GROUP: Final = 1
_KERNEL_PORT: Final = 0
_SO_RCVBUFFORCE: Final = 33
"""Beyond the system's limit, for who may administer the network; not among Python's names."""

_LONGEST_MESSAGE_BYTES: Final = 1 << 14
_MOST_AT_ONCE: Final = 64
"""So that a storm leaves the event loop to others in between."""


class Source(Protocol):
    """What this asks of a socket, which does not block."""

    def fileno(self) -> int:
        """Its descriptor."""

    def recvfrom(self, size: int, /) -> tuple[bytes, object]:
        """One message and its sender. Raises OSError."""

    def close(self) -> None:
        """Give the descriptor back."""


class Uevents:
    """The kernel's messages about devices, for as long as it runs."""

    def __init__(
        self,
        look_again: Callable[[], None],
        log: FilteringBoundLogger,
        *,
        open_source: Callable[[], Source] | None = None,
    ) -> None:
        """Call ``look_again``, which must return at once, whenever something may have changed."""
        self._look_again = look_again
        self._log = log
        self._open = open_source or kernel_socket
        self._told = False
        self.source_up: Cell[bool] = Cell(False)  # noqa: FBT003 -- a cell starts with its value
        """Whether changes are heard; else they are seen at the next resync."""
        self.counts: Counter[str] = Counter()
        """Messages so far: heard, garbage, foreign (not of the kernel); overflows of the buffer."""

    async def run(self) -> Never:
        """Hear for ever, or try to: a source that fails is asked for again."""
        while True:
            self._say_down(await self._hear_until_it_breaks())
            await asyncio.sleep(RETRY_SECONDS)

    async def _hear_until_it_breaks(self) -> str:
        """Why there is no source, or none any more."""
        try:
            source = self._open()
        except OSError as error:
            return f"the kernel's messages about devices cannot be heard: {error}"
        broken: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        with contextlib.closing(source):
            asyncio.get_running_loop().add_reader(source, self._drain, source, broken)
            try:
                self._say_up()
                return await broken
            finally:
                asyncio.get_running_loop().remove_reader(source)

    def _say_up(self) -> None:
        if self._told:
            self._log.info("changes of devices are heard again")
        self._told = False
        self.source_up.set(True)
        # Of what changed before nobody has told.
        self._look_again()

    def _say_down(self, problem: str) -> None:
        if not self._told:
            self._log.warning("changes of devices are seen at resyncs only", detail=problem)
        self._told = True
        self.source_up.set(False)

    def _drain(self, source: Source, broken: "asyncio.Future[str]") -> None:
        try:
            for _ in range(_MOST_AT_ONCE):
                self._hear(*source.recvfrom(_LONGEST_MESSAGE_BYTES))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fail(error, broken)

    def _fail(self, error: OSError, broken: "asyncio.Future[str]") -> None:
        if error.errno == errno.ENOBUFS:
            self.counts["overflow"] += 1
            self._look_again()
        elif not broken.done():
            broken.set_result(f"the kernel's messages about devices broke off: {error}")

    def _hear(self, message: bytes, sender: object) -> None:
        self.counts["heard"] += 1
        if not _is_kernel(sender):
            self.counts["foreign"] += 1
        uevent = parse_uevent(message)
        if uevent is None:
            self.counts["garbage"] += 1
        elif concerns_devices(uevent):
            self._look_again()


def kernel_socket() -> socket.socket:
    """A socket that hears the kernel of this network namespace. Raises OSError where there is none to be had."""
    source = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _NETLINK_KOBJECT_UEVENT)
    try:
        _raise_buffer(source)
        source.bind((0, _KERNEL_GROUP))
    except OSError:
        source.close()
        raise
    return source


def _raise_buffer(source: socket.socket) -> None:
    for option in (socket.SO_RCVBUF, _SO_RCVBUFFORCE):
        # The second needs a right that the agent may lack; a test bed may refuse both.
        with contextlib.suppress(OSError):
            source.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)


def _is_kernel(sender: object) -> bool:
    return isinstance(sender, tuple) and sender[:1] == (_KERNEL_PORT,)
