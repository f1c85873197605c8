"""A gRPC server on a unix socket whose end is felt by its clients, as the end of a process is.

It answers for hanging up: grpclib's own server only cancels its handlers and leaves connections open, which no
process does that ends. It must not know what is served.
"""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from grpclib.server import Server

if TYPE_CHECKING:
    from grpclib._typing import IServable
    from grpclib.protocol import H2Protocol


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
        self.close()
        for protocol in self._protocols:
            if hasattr(protocol, "processor"):
                protocol.processor.close()
        self._protocols.clear()
        await self.wait_closed()

    def _protocol_factory(self) -> "H2Protocol":
        protocol = super()._protocol_factory()
        self._protocols.append(protocol)
        return protocol
