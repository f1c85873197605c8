"""Answers /livez, /readyz and /status over HTTP. It must not decide what ready means, or what the status is."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Final, Never

from aiohttp import web

IDLE_SECONDS: Final = 2.0
"""How long a connection that says nothing is kept, and how long an answer under way may take at the end."""

NotReady = tuple[str, ...]
"""Sentences that say what is still missing; empty when ready."""


class ListenError(Exception):
    """Raised by ``ProbeServer.run`` when its address is taken or not this host's; the operator reads it."""


class ProbeServer:
    """Serves the probes of one program until cancelled."""

    def __init__(
        self, host: str, port: int, *, not_ready: Callable[[], NotReady], status: Callable[[], Awaitable[bytes]]
    ) -> None:
        """Listen on ``host``:``port``; ``status`` gives the JSON that /status answers."""
        self._address = (host, port)
        self._not_ready = not_ready
        self._status = status

    async def run(self) -> Never:
        """Serve. Raises ListenError."""
        runner = web.AppRunner(
            self._application(), access_log=None, keepalive_timeout=IDLE_SECONDS, shutdown_timeout=IDLE_SECONDS
        )
        await runner.setup()
        try:
            await self._listen(runner)
            while True:
                await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner) -> None:
        host, port = self._address
        try:
            await web.TCPSite(runner, host, port).start()
        except (OSError, UnicodeError) as error:
            why = _why(error)
            raise ListenError(
                f"cannot listen on {host}:{port} ({why}); set another listenHost or listenPort"
            ) from error

    def _application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/livez", self._livez)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/status", self._status_page)
        return application

    async def _livez(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        missing = self._not_ready()
        text = "".join(f"{sentence}\n" for sentence in missing) or "ok\n"
        return web.Response(status=503 if missing else 200, text=text)

    async def _status_page(self, _request: web.Request) -> web.Response:
        return web.Response(body=await self._status(), content_type="application/json")


def _why(error: OSError | UnicodeError) -> str:
    """What is wrong with an address, without what Python adds; a name that cannot be resolved has no errno."""
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
