"""The kubelet's plugin manager: the socket where plugins register, and those that did.

It answers for Registration (pkg/kubelet/cm/devicemanager/plugin/v1beta1: server.go, handler.go): a start empties
the folder of sockets, a plugin is dialled back before its Register is answered. It must not deal ids.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from railside_proto import names
from railside_proto.pb.deviceplugin_v1beta1_grpc import RegistrationBase
from railside_proto.pb.deviceplugin_v1beta1_pb2 import Empty, RegisterRequest
from railside_sim.grpc_server import MortalServer
from railside_sim.plugin_client import PluginClient, PluginError

if TYPE_CHECKING:
    from grpclib.server import Stream

_EXTENDED: Final = re.compile(r"(?!([a-z0-9.-]+\.)?kubernetes\.io/)[a-z0-9.-]+/[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?")

Changed = Callable[[], Awaitable[None]]


class RegistrationRefusedError(Exception):
    """A registration cannot be taken; the plugin gets the text as UNKNOWN, as from the real kubelet."""


class PluginRegistry:
    """Plugins by resource name. ``changed`` is called whenever a list or a plugin changes."""

    def __init__(self, folder: Path, changed: Changed) -> None:
        self._folder = folder
        self._changed = changed
        self._server: MortalServer | None = None
        self._plugins: dict[str, PluginClient] = {}
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._resources: set[str] = set()

    @property
    def resources(self) -> frozenset[str]:
        """Every resource ever registered; a restart does not forget them (they stand in the checkpoint)."""
        return frozenset(self._resources)

    def plugin(self, resource: str) -> PluginClient | None:
        """The plugin of a resource, gone or not; None where none registered since the start."""
        return self._plugins.get(resource)

    async def start(self) -> None:
        """Deletes every socket in the folder, whoever made it, and listens on its own. Raises OSError."""
        await asyncio.to_thread(_empty_of_sockets, self._folder)
        self._server = MortalServer([_Registration(self._register)])
        await self._server.serve(self._folder / names.KUBELET_SOCKET)

    async def stop(self) -> None:
        """Hangs up on every plugin and forgets it; the sockets' files stay."""
        if self._server is not None:
            await self._server.end()
            self._server = None
        for resource in tuple(self._plugins):
            await self._drop(resource)
        await self._changed()

    async def _register(self, request: RegisterRequest) -> None:
        _check(request)
        plugin = await _dial(self._folder / request.endpoint)
        await self._drop(request.resource_name)
        self._resources.add(request.resource_name)
        self._plugins[request.resource_name] = plugin
        self._followers[request.resource_name] = asyncio.create_task(
            plugin.follow(self._changed),
            name=f"follow {request.resource_name}",
        )
        await self._changed()

    async def _drop(self, resource: str) -> None:
        if resource not in self._plugins:
            return
        self._plugins.pop(resource).close()
        follower = self._followers.pop(resource)
        follower.cancel()
        await asyncio.wait([follower])
        if not follower.cancelled():
            follower.result()


class _Registration(RegistrationBase):
    def __init__(self, register: Callable[[RegisterRequest], Awaitable[None]]) -> None:
        self._register = register

    async def Register(self, stream: "Stream[RegisterRequest, Empty]") -> None:  # noqa: N802 - the wire's name
        request = await stream.recv_message()
        try:
            await self._register(request or RegisterRequest())
        except RegistrationRefusedError as refusal:
            raise GRPCError(Status.UNKNOWN, str(refusal)) from refusal
        await stream.send_message(Empty())


async def _dial(socket: Path) -> PluginClient:
    """The connected plugin. The real kubelet waits 10 s for a missing socket; here it is told at once."""
    with contextlib.ExitStack() as undo:
        plugin = PluginClient(socket)
        undo.callback(plugin.close)
        try:
            await plugin.connect()
        except PluginError as error:
            raise RegistrationRefusedError(f"failed to dial device plugin: {error}") from error
        undo.pop_all()
    return plugin


def _check(request: RegisterRequest) -> None:
    if request.version != names.DEVICE_PLUGIN_API:
        raise RegistrationRefusedError(
            f"requested API version {request.version!r} is not supported by kubelet."
            f" Supported version is {names.DEVICE_PLUGIN_API!r}",
        )
    if _EXTENDED.fullmatch(request.resource_name) is None:
        raise RegistrationRefusedError(f"the ResourceName {request.resource_name!r} is invalid")


def _empty_of_sockets(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for entry in folder.iterdir():
        if entry.is_socket():
            entry.unlink()
