"""A gRPC server on a unix socket whose end is felt by its clients, as the end of a process is.

It answers for hanging up: grpclib's own server only cancels its handlers and leaves connections open, which no
process does that ends. It must not know what is served.
"""

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grpclib.server import Server

if TYPE_CHECKING:
    from grpclib._typing import IServable
    from grpclib.protocol import H2Protocol


_ROUNDS: Final = 5


class MortalServer(Server):
    """Serves ``handlers``; ``end`` closes the socket, every connection and every handler."""

    def __init__(self, handlers: Collection["IServable"]) -> None:
        super().__init__(handlers)
        self._protocols: list[H2Protocol] = []

    async def serve(self, socket: Path) -> None:
        """Listens on ``socket``. Raises OSError where its path is taken by something alive or too long."""
        await self.start(path=str(socket))

    async def end(self) -> None:
        """Hangs up and waits for all handlers. The socket file stays, as after a process's end."""
        await self._accept_no_more()
        self.close()
        for protocol in self._protocols:
            if hasattr(protocol, "processor"):
                protocol.processor.close()
        self._protocols.clear()
        await self.wait_closed()

    async def _accept_no_more(self) -> None:
        """Returns when what was accepted can be closed: a connection is made some rounds of the loop later."""
        for listening in self._server.sockets if isinstance(self._server, asyncio.Server) else ():
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)

    def _protocol_factory(self) -> "H2Protocol":
        protocol = super()._protocol_factory()
        self._protocols.append(protocol)
        return protocol
