"""Answers /livez, /readyz, /status and /metrics over HTTP.

It must not decide what ready means, or what the status is.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Final, Never

from aiohttp import web

IDLE_SECONDS: Final = 2.0
"""How long a connection that says nothing is kept, and how long an answer under way may take at the end."""

RETRY_SECONDS: Final = 5.0
"""Between two tries to listen: the program's predecessor on a host's network may still be on its way out."""

MOST_CONNECTIONS: Final = 64
"""At a time: whoever may reach the port must not take the descriptors that the program works with."""

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

NotReady = tuple[str, ...]
"""Sentences that say what is still missing; empty when ready."""


class ProbeServer:
    """Serves the probes of one program until cancelled."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        not_ready: Callable[[], NotReady],
        status: Callable[[], Awaitable[bytes]],
        complain: Callable[[str], None],
        metrics: Callable[[], bytes] | None = None,
        settings: str = "listenHost or listenPort",
    ) -> None:
        """Listen on ``host``:``port``, which ``settings`` set; ``status`` and ``metrics`` give what is answered.

        An address that is taken or not this host's is told to ``complain``, once for each problem, and tried
        again: what the program is for must not wait for its probes.
        """
        self._address = (host, port)
        self._not_ready = not_ready
        self._status = status
        self._complain = complain
        self._settings = settings
        self._metrics = metrics
        self._listener: asyncio.Server | None = None

    async def run(self) -> Never:
        """Serve as soon as the address is to be had."""
        runner = web.AppRunner(
            self._application(), access_log=None, keepalive_timeout=IDLE_SECONDS, shutdown_timeout=IDLE_SECONDS
        )
        await runner.setup()
        try:
            await self._listen(runner)
            while True:
                await asyncio.Event().wait()
        finally:
            if self._listener is not None:
                self._listener.close()
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner) -> None:
        told: str | None = None
        while (problem := await self._try_to_listen(runner)) is not None:
            if problem != told:
                self._complain(problem)
            told = problem
            await asyncio.sleep(RETRY_SECONDS)

    async def _try_to_listen(self, runner: web.AppRunner) -> str | None:
        """What is in the way; None when it listens."""
        host, port = self._address
        try:
            await self._serve(runner, host, port)
        except (OSError, UnicodeError) as error:
            return not_listening(host, port, error, self._settings)
        return None

    async def _serve(self, runner: web.AppRunner, host: str, port: int) -> None:
        server = runner.server
        if server is None:
            raise AssertionError("the runner was set up, so it has a server")

        def connected() -> asyncio.Protocol:
            return _Full() if len(server.connections) >= MOST_CONNECTIONS else server()

        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(connected, host, port, backlog=MOST_CONNECTIONS)

    def _application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/", self._index)
        application.router.add_get("/livez", self._livez)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/status", self._status_page)
        if self._metrics is not None:
            application.router.add_get("/metrics", self._metrics_page)
        return application

    async def _index(self, _request: web.Request) -> web.Response:
        paths = ["/livez", "/readyz", "/status", *(["/metrics"] if self._metrics else [])]
        return web.Response(text="".join(f"{path}\n" for path in paths))

    async def _livez(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        missing = self._not_ready()
        text = "".join(f"{sentence}\n" for sentence in missing) or "ok\n"
        return web.Response(status=503 if missing else 200, text=text)

    async def _metrics_page(self, _request: web.Request) -> web.Response:
        if self._metrics is None:
            raise web.HTTPNotFound
        return web.Response(body=self._metrics(), headers={"Content-Type": METRICS_TYPE})

    async def _status_page(self, _request: web.Request) -> web.Response:
        return web.Response(body=await self._status(), content_type="application/json")


class _Full(asyncio.Protocol):
    """A connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hang up."""
        transport.close()


def not_listening(host: str, port: int, error: OSError | UnicodeError, settings: str) -> str:
    """Why nothing can be served at an address, and which ``settings`` give another."""
    return f"cannot listen on {host}:{port} ({_why(error)}); set another {settings}"


def _why(error: OSError | UnicodeError) -> str:
    """What is wrong with an address, without what Python adds; a name that cannot be resolved has no errno."""
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
