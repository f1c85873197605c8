"""Keeps one plugin registered: its socket, the Register call, and the kubelet's restarts.

At its start the kubelet deletes every socket in its folder, ours too, and makes a new one of its own. So a
plugin is served anew and registered anew whenever either socket is not the one that it was, and when the kubelet
no longer listens to the list. Each time it has a name of its own: a kubelet of 1.37 that is asked to register a
name before it has seen its last connection end never takes that name again. It must not know what the plugin
offers.
"""

import asyncio
import contextlib
import re
import secrets
from pathlib import Path
from typing import Final, Never

from grpclib.client import Channel
from grpclib.exceptions import GRPCError
from structlog.typing import FilteringBoundLogger

from railside_agent.folder_watch import FolderWatch
from railside_agent.plugin import OPTIONS, DevicePlugin
from railside_agent.plugin_server import serving
from railside_agent.view import NOT_TRIED, RegistrationState
from railside_proto.names import DEVICE_PLUGIN_API, DEVICE_PLUGINS, KUBELET_SOCKET
from railside_proto.pb import deviceplugin_v1beta1_pb2 as pb
from railside_proto.pb.deviceplugin_v1beta1_grpc import RegistrationStub
from railside_proto.pool import Pool
from railside_runtime.cell import Cell
from railside_runtime.pauses import jittered
from railside_runtime.waiting import first_of
from railside_runtime.words import words_of

REGISTER_DEADLINE_SECONDS: Final = 15.0
"""The kubelet dials back inside Register and gives up after 10 s, with a text worth having."""

FIRST_RETRY_SECONDS: Final = 0.2
"""Also from hanging up to registering again with the same kubelet: it cleans up after the old connection, and
would take a new one that comes at once for the old."""

LONGEST_RETRY_SECONDS: Final = 5.0

STABLE_SECONDS: Final = 10.0
"""A registration that lasted so long was no failure, and the next try may come soon again."""

UNHEARD_SECONDS: Final = 1.5
"""How long a registered plugin waits for the kubelet to open its list, or to open it again."""

SETTLE_SECONDS: Final = 0.2
"""How long a server that ends waits for calls under way: an Allocate that is cut fails its pod for good."""

_Identity = tuple[int, int]


class Registrar:
    """Serves and registers one pool's plugin, for as long as it runs."""

    def __init__(self, pool: Pool, plugin: DevicePlugin, kubelet_dir: Path, log: FilteringBoundLogger) -> None:
        """Register with the kubelet whose folder is ``kubelet_dir``."""
        self._pool = pool
        self._plugin = plugin
        self._folder = kubelet_dir / DEVICE_PLUGINS
        self._kubelet = self._folder / KUBELET_SOCKET
        self._socket = self._folder / _fresh(pool)
        self._log = log
        self.state: Cell[RegistrationState] = Cell(NOT_TRIED)
        self._told = NOT_TRIED

    async def run(self) -> Never:
        """Stay registered. Tries with one and the same kubelet come ever more slowly, a new one is met at once."""
        pause = FIRST_RETRY_SECONDS
        while True:
            self._socket = self._folder / _fresh(self._pool)
            # The kubelet writes its checkpoint into the same folder, several times for each pod.
            sockets = {self._kubelet.name, self._socket.name}
            async with FolderWatch(self._folder, self._log, only=sockets) as watch:
                kubelet = await self._found(watch)
                began = asyncio.get_running_loop().time()
                await self._serve_once(kubelet, watch)
                lasted = asyncio.get_running_loop().time() - began
                pause = FIRST_RETRY_SECONDS if lasted > STABLE_SECONDS else min(2 * pause, LONGEST_RETRY_SECONDS)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(jittered(pause)):
                        await self._until_another_kubelet(kubelet, watch)
                        pause = FIRST_RETRY_SECONDS

    async def rest(self) -> None:
        """Say that nothing is to be registered now, and let the kubelet clean up behind a ``run`` that ended."""
        self._say(registered=False, detail=NOT_TRIED.detail)
        await asyncio.sleep(FIRST_RETRY_SECONDS)

    async def _found(self, watch: FolderWatch) -> _Identity:
        while (kubelet := await _identity(self._kubelet)) is None:
            self._say(registered=False, detail=f"waiting for the kubelet's socket {self._kubelet}")
            await watch.changed()
        return kubelet

    async def _serve_once(self, kubelet: _Identity, watch: FolderWatch) -> None:
        """Serve, and stay registered while both sockets stand and the kubelet listens."""
        try:
            await asyncio.to_thread(_clear, self._folder, self._pool)
            async with serving(self._plugin, self._socket):
                try:
                    await self._register(kubelet, await _identity(self._socket), watch)
                finally:
                    await self._plugin.settled(SETTLE_SECONDS)
        except OSError as error:
            self._say(registered=False, detail=f"{self._socket} cannot be served: {error}")

    async def _register(self, kubelet: _Identity, ours: _Identity | None, watch: FolderWatch) -> None:
        """Register; return when that has failed or holds no longer. A kubelet that hangs is left for the next."""
        self.state.set(RegistrationState(registered=False, detail="asking the kubelet"))
        await first_of(self._ask_and_be_heard(), self._until_another_socket(kubelet, ours, watch))
        if self.state.value.registered:
            self._say(registered=False, detail="the kubelet has restarted, listens no longer, or a socket is gone")

    async def _ask_and_be_heard(self) -> None:
        problem = await self._try_to_register()
        self._say(registered=problem is None, detail=problem or f"registered as {self._pool.resource}")
        if problem is None:
            await self._until_unheard()

    async def _until_another_kubelet(self, kubelet: _Identity, watch: FolderWatch) -> None:
        while await _identity(self._kubelet) == kubelet:
            await watch.changed()

    async def _until_another_socket(self, kubelet: _Identity, ours: _Identity | None, watch: FolderWatch) -> None:
        while ours and (kubelet, ours) == (await _identity(self._kubelet), await _identity(self._socket)):
            await watch.changed()

    async def _until_unheard(self) -> None:
        """Return when no stream of the list has been open for a while."""
        streams = self._plugin.streams
        while True:
            await streams.until(lambda count: count == 0)
            try:
                async with asyncio.timeout(UNHEARD_SECONDS):
                    await streams.until(lambda count: count > 0)
            except TimeoutError:
                return

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
        except Exception as error:  # noqa: BLE001 -- whatever sits on that socket must not end the agent
            return f"the kubelet did not answer: {words_of(error)}"
        return None

    def _say(self, *, registered: bool, detail: str) -> None:
        self.state.set(RegistrationState(registered=registered, detail=detail))
        # The same answer to the next try is no news.
        if self._told != self.state.value:
            self._log.info("registration", registered=registered, detail=detail)
        self._told = self.state.value


def _fresh(pool: Pool) -> str:
    """A name that no socket of the pool had before: short, as a socket's path has 107 bytes at most."""
    return f"railside-{pool.name}.{secrets.token_hex(3)}.sock"


def _clear(folder: Path, pool: Pool) -> None:
    """Take away what earlier servers of the pool left, as far as it goes: one agent at a time serves a machine."""
    ours = re.compile(rf"railside-{re.escape(pool.name)}(\.[0-9a-f]{{6}})?\.sock")
    for path in folder.iterdir():
        if ours.fullmatch(path.name):
            with contextlib.suppress(OSError):
                path.unlink()


async def _identity(path: Path) -> _Identity | None:
    """Tells a socket from a later one of the same name: inode numbers alone are used again.

    Nothing writes to a socket's file, so its modification time is that of its making; a chmod leaves it.
    """
    try:
        found = await asyncio.to_thread(path.lstat)
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns)
