"""Serves a plugin on a unix socket, and hangs up when it ends.

grpclib's own server cancels its handlers and leaves the connections open: the kubelet would go on believing in
a plugin that no longer listens. It must not know what is served. (railside_sim has the like for its own
servers: the judge shares no code with the judged.)
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grpclib.server import Server

if TYPE_CHECKING:
    from grpclib._typing import IServable
    from grpclib.protocol import H2Protocol


_ROUNDS_OF_THE_LOOP: Final = 5
"""What asyncio takes at most from accepting a connection to its being made."""


@contextlib.asynccontextmanager
async def serving(plugin: "IServable", path: Path) -> AsyncIterator[None]:
    """Serve ``plugin`` on ``path`` for as long as the context lasts. Raises OSError where it cannot listen."""
    listening = await _bound_in_thread(path)
    server = _Server(plugin)
    await server.start(sock=listening)
    try:
        yield
    finally:
        await _accept_no_more(listening)
        server.hang_up()
        await server.wait_closed()


async def _accept_no_more(listening: socket.socket) -> None:
    """Returns when all connections that were accepted are made: before, nobody can close them.

    asyncio's server, closed meanwhile, would leave such a connection open, and its client in good faith.
    """
    asyncio.get_running_loop().remove_reader(listening)
    for _ in range(_ROUNDS_OF_THE_LOOP):
        await asyncio.sleep(0)


async def _bound_in_thread(path: Path) -> socket.socket:
    """The bound socket; who is cancelled meanwhile leaves none behind."""
    binding = asyncio.ensure_future(asyncio.to_thread(_bound, path))
    try:
        return await asyncio.shield(binding)
    except asyncio.CancelledError:
        binding.add_done_callback(_close_what_came)
        raise


def _close_what_came(binding: "asyncio.Future[socket.socket]") -> None:
    if not binding.cancelled() and binding.exception() is None:
        binding.result().close()


def _bound(path: Path) -> socket.socket:
    """A socket at ``path``, in the place of whatever was there, that root alone may talk to."""
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        bound.bind(str(path))
        path.chmod(0o600)
    except OSError:
        bound.close()
        raise
    return bound


class _Server(Server):
    def __init__(self, plugin: "IServable") -> None:
        super().__init__([plugin])
        self._connections: list[H2Protocol] = []

    def _protocol_factory(self) -> "H2Protocol":
        """Note each connection, and forget those that have ended."""
        self._connections = [one for one in self._connections if not _has_ended(one)]
        connection = super()._protocol_factory()
        self._connections.append(connection)
        return connection

    def hang_up(self) -> None:
        """Stop listening, cancel every handler and close every connection."""
        self.close()
        for connection in self._connections:
            if hasattr(connection, "processor"):
                connection.processor.close()


def _has_ended(connection: "H2Protocol") -> bool:
    """Whether it was made and is closed; one that is being made has neither."""
    return hasattr(connection, "connection") and connection.connection.is_closing()
