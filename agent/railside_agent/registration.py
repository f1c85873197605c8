"""Keeps one plugin registered: its socket, the Register call, and the kubelet's restarts.

At its start the kubelet deletes every socket in its folder, ours too, and makes a new one of its own. So a
plugin is served anew and registered anew whenever either socket is not the one that it was. It must not know
what the plugin offers.
"""

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Final, Never

from grpclib.client import Channel
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
from structlog.typing import FilteringBoundLogger

from railside_agent.folder_watch import FolderWatch
from railside_agent.plugin import OPTIONS, DevicePlugin
from railside_agent.plugin_server import serving
from railside_agent.status import NOT_TRIED, RegistrationState
from railside_proto.names import DEVICE_PLUGIN_API, DEVICE_PLUGINS, KUBELET_SOCKET
from railside_proto.pb import deviceplugin_v1beta1_pb2 as pb
from railside_proto.pb.deviceplugin_v1beta1_grpc import RegistrationStub
from railside_proto.pool import Pool
from railside_runtime.cell import Cell

REGISTER_DEADLINE_SECONDS: Final = 15.0
"""The kubelet dials back inside Register and gives up after 10 s, with a text worth having."""

FIRST_RETRY_SECONDS: Final = 0.05
LONGEST_RETRY_SECONDS: Final = 5.0
UNSERVED_RETRY_SECONDS: Final = 0.5

_Identity = tuple[int, int]
_Sockets = tuple[_Identity | None, _Identity | None]
"""The kubelet's socket and ours; a None is a socket that is not there."""


class Registrar:
    """Serves and registers one pool's plugin, for as long as it runs."""

    def __init__(self, pool: Pool, plugin: DevicePlugin, kubelet_dir: Path, log: FilteringBoundLogger) -> None:
        """Register with the kubelet whose folder is ``kubelet_dir``."""
        self._pool = pool
        self._plugin = plugin
        self._folder = kubelet_dir / DEVICE_PLUGINS
        self._kubelet = self._folder / KUBELET_SOCKET
        self._socket = self._folder / f"railside-{pool.name}.sock"
        self._log = log
        self.state: Cell[RegistrationState] = Cell(NOT_TRIED)

    async def run(self) -> Never:
        """Stay registered."""
        while True:
            async with FolderWatch(self._folder, self._log) as watch:
                await self._until_kubelet(watch)
                await self._serve_once(watch)

    async def _until_kubelet(self, watch: FolderWatch) -> None:
        while await _identity(self._kubelet) is None:
            self._say(registered=False, detail=f"waiting for the kubelet's socket {self._kubelet}")
            await watch.changed()

    async def _serve_once(self, watch: FolderWatch) -> None:
        """Serve and stay registered until one of the two sockets is another."""
        try:
            kubelet = await _identity(self._kubelet)
            await asyncio.to_thread(self._socket.unlink, missing_ok=True)
            async with serving(self._plugin, self._socket):
                before = (kubelet, await _identity(self._socket))
                await self._register(before, watch)
                await self._until_changed(before, watch)
        except OSError as error:
            self._say(registered=False, detail=f"{self._socket} cannot be served: {error}")
            await asyncio.sleep(_jittered(UNSERVED_RETRY_SECONDS))
        else:
            self._say(registered=False, detail="the kubelet has restarted, or a socket is gone; registering anew")

    async def _register(self, sockets: _Sockets, watch: FolderWatch) -> None:
        """Register, trying again ever more slowly, for as long as the sockets stay what they were.

        A kubelet that comes back makes a new socket and must find us within 1.2 s, however long it was away.
        """
        pause = FIRST_RETRY_SECONDS
        while await self._unchanged(sockets):
            problem = await self._try_to_register()
            if problem is None:
                self._say(registered=True, detail=f"registered as {self._pool.resource}")
                return
            self._say(registered=False, detail=problem)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_jittered(pause)):
                    await self._until_changed(sockets, watch)
            pause = min(2 * pause, LONGEST_RETRY_SECONDS)

    async def _until_changed(self, sockets: _Sockets, watch: FolderWatch) -> None:
        while await self._unchanged(sockets):
            await watch.changed()

    async def _try_to_register(self) -> str | None:
        """Register once; what went wrong, or None."""
        request = pb.RegisterRequest(
            version=DEVICE_PLUGIN_API,
            endpoint=self._socket.name,
            resource_name=self._pool.resource,
            options=OPTIONS,
        )
        try:
            async with Channel(path=str(self._kubelet)) as channel:
                await RegistrationStub(channel).Register(request, timeout=REGISTER_DEADLINE_SECONDS)
        except GRPCError as error:
            return f"the kubelet refused: {error.message}"
        except (OSError, TimeoutError, StreamTerminatedError, ProtocolError) as error:
            return f"the kubelet did not answer: {str(error) or type(error).__name__}"
        return None

    async def _unchanged(self, sockets: _Sockets) -> bool:
        now = (await _identity(self._kubelet), await _identity(self._socket))
        return now == sockets and None not in now

    def _say(self, *, registered: bool, detail: str) -> None:
        state = RegistrationState(registered=registered, detail=detail)
        if state != self.state.value:
            self._log.info("registration", registered=registered, detail=detail)
        self.state.set(state)


async def _identity(path: Path) -> _Identity | None:
    """Tells a socket from a later one of the same name: inode numbers alone are used again."""
    try:
        found = await asyncio.to_thread(path.lstat)
    except OSError:
        return None
    return (found.st_ino, found.st_ctime_ns)


def _jittered(seconds: float) -> float:
    """So that the agents of many nodes, and many tries of one, do not march in step."""
    return seconds * random.uniform(0.5, 1.5)  # noqa: S311 -- not a secret
