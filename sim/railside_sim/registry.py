"""The kubelet's plugin manager: the socket where plugins register, and those that did.

It answers for Registration (pkg/kubelet/cm/devicemanager/plugin/v1beta1: server.go, handler.go; until 1.24 in
manager.go): a start empties the folder of sockets, a plugin is dialled back before its Register is answered, or
behind that by an older one. It must not deal ids.
"""

import asyncio
import contextlib
import functools
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from railside_proto import names
from railside_proto.pb.deviceplugin_v1beta1_grpc import RegistrationBase
from railside_proto.pb.deviceplugin_v1beta1_pb2 import Empty, RegisterRequest
from railside_sim.ages import Age
from railside_sim.device import ListedDevice
from railside_sim.grpc_server import MortalServer
from railside_sim.plugin_client import PluginClient, PluginError
from railside_sim.registrations import RegistrationRefusedError, Successors, registrations

if TYPE_CHECKING:
    from grpclib.server import Stream

_EXTENDED: Final = re.compile(r"(?!([a-z0-9.-]+\.)?kubernetes\.io/)[a-z0-9.-]+/[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?")


class PluginHandler(Successors, Protocol):
    """Who keeps what plugins tell."""

    async def told(self, resource: str, devices: tuple[ListedDevice, ...]) -> None:
        """A plugin told its list."""


class PluginRegistry:
    """Plugins by resource name, each registration with a stream of its own."""

    def __init__(self, folder: Path, handler: PluginHandler, age: Age) -> None:
        self._folder = folder
        self._handler = handler
        self._age = age
        self._server: MortalServer | None = None
        self._registrations = registrations(age, handler)
        self._followers: dict[PluginClient, asyncio.Task[None]] = {}
        """Of each registration, those included that are still being dialled."""

    async def start(self) -> None:
        """Deletes every socket in the folder, whoever made it, and listens on its own. Raises OSError."""
        await asyncio.to_thread(_emptied, self._folder, of_sockets_alone=self._age.keeps_sockets_alone)
        self._server = MortalServer([_Registration(self._register)])
        await self._server.serve(self._folder / names.KUBELET_SOCKET)

    async def stop(self) -> None:
        """Hangs up on every plugin and forgets it; the sockets' files stay."""
        if self._server is not None:
            await self._server.end()
            self._server = None
        followers, self._followers = self._followers, {}
        for plugin, follower in followers.items():
            plugin.close()
            follower.cancel()
        if followers:
            await asyncio.wait(followers.values())
        for follower in followers.values():
            if not follower.cancelled():
                follower.result()

    async def _register(self, request: RegisterRequest) -> None:
        """An earlier registration is not hung up on: its stream is read for as long as the plugin keeps it."""
        _check(request)
        resource = request.resource_name
        plugin = PluginClient(self._folder / request.endpoint, self._age)
        if self._age.registers == "at once":
            live = self._dial_and_follow(request, plugin)
        else:
            await self._connect(resource, plugin)
            live = self._follow(resource, plugin)
        self._followers[plugin] = asyncio.create_task(live, name=f"follow {resource}")

    async def _connect(self, resource: str, plugin: PluginClient) -> None:
        with contextlib.ExitStack() as undo:
            undo.callback(plugin.close)
            await _connected(plugin)
            await self._registrations.take(resource, plugin)
            undo.pop_all()

    async def _dial_and_follow(self, request: RegisterRequest, plugin: PluginClient) -> None:
        """A plugin that cannot be dialled is never heard of; the real one tries for 10 s."""
        try:
            await plugin.dial(request.options)
        except OSError:
            self._followers.pop(plugin, None)
            plugin.close()
            return
        await self._registrations.take(request.resource_name, plugin)
        await self._follow(request.resource_name, plugin)

    async def _follow(self, resource: str, plugin: PluginClient) -> None:
        await plugin.follow(functools.partial(self._handler.told, resource))
        self._followers.pop(plugin, None)
        plugin.close()
        await self._registrations.end(resource, plugin)


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


async def _connected(plugin: PluginClient) -> None:
    """Connects. The real kubelet waits 10 s for a missing socket; here it is told at once."""
    try:
        await plugin.connect()
    except PluginError as error:
        raise RegistrationRefusedError(f"failed to dial device plugin: {error}") from error


def _check(request: RegisterRequest) -> None:
    if request.version != names.DEVICE_PLUGIN_API:
        raise RegistrationRefusedError(
            f"requested API version {request.version!r} is not supported by kubelet."
            f" Supported version is {names.DEVICE_PLUGIN_API!r}",
        )
    if _EXTENDED.fullmatch(request.resource_name) is None:
        raise RegistrationRefusedError(f"the ResourceName {request.resource_name!r} is invalid")


def _emptied(folder: Path, *, of_sockets_alone: bool) -> None:
    """What an older kubelet leaves is its checkpoint, and folders."""
    folder.mkdir(parents=True, exist_ok=True)
    for entry in folder.iterdir():
        kept = entry.is_dir() or entry.name == names.KUBELET_CHECKPOINT
        if entry.is_socket() or not (kept or of_sockets_alone):
            entry.unlink()
