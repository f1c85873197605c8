"""Which plugin speaks for a resource, by the three ways that kubelets of different ages keep count of it.

It answers for what the end of a stream takes along, and for names that are refused. It must not dial.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from railside_sim.ages import Age
from railside_sim.plugin_client import PluginClient


class RegistrationRefusedError(Exception):
    """A registration cannot be taken; the plugin gets the text as UNKNOWN, as from the real kubelet."""


class Successors(Protocol):
    """Who is told which plugin to ask."""

    async def connected(self, resource: str, plugin: PluginClient) -> None:
        """From now on it is this one."""

    async def disconnected(self, resource: str) -> None:
        """The resource's plugin was hung up on."""


class Registrations(Protocol):
    """The registrations of one start of a kubelet."""

    async def take(self, resource: str, plugin: PluginClient) -> None:
        """A plugin that was dialled speaks for the resource. Raises RegistrationRefusedError."""

    async def end(self, resource: str, plugin: PluginClient) -> None:
        """A plugin's stream has ended."""


class _AtOnce:
    """The last one speaks, and its own end is what counts."""

    def __init__(self, told: Successors) -> None:
        self._told = told
        self._current: dict[str, PluginClient] = {}

    async def take(self, resource: str, plugin: PluginClient) -> None:
        self._current[resource] = plugin
        await self._told.connected(resource, plugin)

    async def end(self, resource: str, plugin: PluginClient) -> None:
        if self._current.get(resource) is plugin:
            del self._current[resource]
            await self._told.disconnected(resource)


class _ByResource(_AtOnce):
    """The last one speaks, and goes with the end of any."""

    async def end(self, resource: str, plugin: PluginClient) -> None:  # noqa: ARG002 -- whichever it is
        current = self._current.pop(resource, None)
        if current is not None:
            current.close()
            await self._told.disconnected(resource)


class _ByPath:
    """The last one speaks, behind it another that is left; a path that is known is refused."""

    def __init__(self, told: Successors) -> None:
        self._told = told
        self._known: dict[str, dict[Path, PluginClient]] = {}
        self._heeded: set[PluginClient] = set()
        """Those whose end will be noticed."""

    async def take(self, resource: str, plugin: PluginClient) -> None:
        known = self._known.setdefault(resource, {})
        if plugin.socket in known:
            self._heeded.discard(known[plugin.socket])
            raise RegistrationRefusedError(f"device plugin already connected: {plugin.socket}")
        known[plugin.socket] = plugin
        self._heeded.add(plugin)
        await self._told.connected(resource, plugin)

    async def end(self, resource: str, plugin: PluginClient) -> None:
        if plugin not in self._heeded:
            return
        self._heeded.remove(plugin)
        known = self._known[resource]
        del known[plugin.socket]
        if known:
            await self._told.connected(resource, next(iter(known.values())))
        else:
            await self._told.disconnected(resource)


_WAYS: Final[dict[str, Callable[[Successors], Registrations]]] = {
    "at once": _AtOnce,
    "by resource": _ByResource,
    "by path": _ByPath,
}


def registrations(age: Age, told: Successors) -> Registrations:
    """None yet, kept as a kubelet of that age keeps them."""
    return _WAYS[age.registers](told)
