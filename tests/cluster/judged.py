"""A kubelet with plugins at its sockets, asked and looked at: the same for the real one and the embedded one.

It answers for what is compared: what became of a pod, where its ids are, what plugins were asked, what the
checkpoint says. It must not know what is right.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from harness import waiting
from kubelets import HCA, Kubelet, Lists, Status
from pod_resources import list_pods
from railside_proto import names
from railside_sim import checkpoint
from railside_sim.gpu_plugin import Asked, GpuPlugin, Preference
from railside_sim.pod_devices import Entry
from railside_sim.pod_spec import ContainerSpec, Pod


class Call(NamedTuple):
    """A call to a plugin: how many ids were in it, how many of them sure, and how many were wanted."""

    name: str
    ids: int
    must_include: int
    size: int


class Seen(NamedTuple):
    """What became of a pod, the NUMA nodes of its ids, and the calls that it took, both by resource."""

    outcome: str
    nodes: dict[tuple[str, str], list[int]]
    calls: dict[str, list[Call]]


class Plugin(NamedTuple):
    """How a plugin behaves: whether it is asked for its preference, which is its answer, and told of starts."""

    preference: Preference | None
    pre_start: bool


def first(asked: Asked) -> list[str]:
    """Wishes for the first ids by name."""
    free = [one for one in asked.ids if one not in asked.must_include]
    return [*asked.must_include, *free][: asked.size]


PLAIN = Plugin(first, pre_start=True)


class Judged:
    """One of the kubelets with plugins that offer ``lists``, asked and looked at."""

    def __init__(self, kubelet: Kubelet, plugins: dict[str, GpuPlugin], lists: Lists) -> None:
        self.kubelet = kubelet
        self._plugins = plugins
        self._lists = lists

    async def admit(self, pod: Pod) -> Seen:
        """Admits a pod."""
        before = {resource: len(plugin.asked) for resource, plugin in self._plugins.items()}
        outcome = await self.kubelet.admit(pod)
        nodes = {
            (entry.container, entry.resource): sorted(
                node for node, ids in entry.dealt.by_node.items() for _ in ids
            )
            for entry in self.entries()
            if self.kubelet.pods.get(entry.uid) == pod.name
        }
        calls = {
            resource: [_call(asked) for asked in plugin.asked[before[resource] :]]
            for resource, plugin in self._plugins.items()
        }
        return Seen(outcome, nodes, calls)

    def entries(self) -> tuple[Entry, ...]:
        """The checkpoint's entries."""
        return checkpoint.read(self._file).entries

    def shape(self) -> object:
        """The checkpoint's form: its keys, and the types of what they name."""
        return _shape(msgspec.json.decode(self._file.read_bytes()))

    def books(self) -> dict[str, object]:
        """All that the checkpoint says: ids by pod, container, resource and NUMA node, and what is healthy."""
        kept = checkpoint.read(self._file)
        held = {
            f"{self.kubelet.pods.get(entry.uid)} {entry.container} {entry.resource}": {
                node: sorted(ids) for node, ids in sorted(entry.dealt.by_node.items())
            }
            for entry in kept.entries
        }
        return {**held, "healthy": {resource: sorted(ids) for resource, ids in sorted(kept.registered.items())}}

    def take_calls(self) -> dict[str, object]:
        """What each plugin was asked since the last time: one call after the other, but starts in no order."""
        calls = {resource: tuple(plugin.asked) for resource, plugin in self._plugins.items()}
        for plugin in self._plugins.values():
            plugin.asked.clear()
        return {
            resource: ([each for each in asked if each.call != "start"], Counter(_starts(asked)))
            for resource, asked in calls.items()
        }

    async def forget(self) -> list[int]:
        """Entries of one pod: while it runs, when it is gone, after a List, and after the list came again."""
        await self.admit(Pod(name="ending", containers=(ContainerSpec(requests={HCA: 1}),)))
        counts = [len(self.entries())]
        await self.kubelet.remove("ending")
        counts.append(len(self.entries()))
        await list_pods(self.kubelet.folder)
        counts.append(len(self.entries()))
        before = self._file.stat()
        await self._plugins[HCA].resend()
        await asyncio.to_thread(
            waiting.until, lambda: self._file.stat().st_ino != before.st_ino, "the checkpoint to be written anew"
        )
        return [*counts, len(self.entries())]

    async def restart(self, *, in_time: bool, lists: Lists | None = None, sick: Collection[str] = ()) -> bool:
        """Restarts the kubelet, with other lists if given, or with sick ids; whether it lives on."""
        now = lists or self._lists

        async def register() -> None:
            for resource, plugin in self._plugins.items():
                await plugin.end()
                await plugin.tell(now[resource], sick=sick)
                await plugin.serve_and_register()

        return await self.kubelet.restart(register, _healthy(now, sick), in_time=in_time)

    async def recover(self) -> None:
        """All ids are listed, and healthy."""
        await self.fall_ill(())

    async def fall_ill(self, sick: Collection[str]) -> Status:
        """All ids are listed, those of ``sick`` as unhealthy; what the node's status says then."""
        for resource, plugin in self._plugins.items():
            await plugin.tell(self._lists[resource], sick=sick)
        return await self.kubelet.offers(_healthy(self._lists, sick))

    @property
    def _file(self) -> Path:
        return self.kubelet.folder / names.DEVICE_PLUGINS / names.KUBELET_CHECKPOINT


def _call(asked: Asked) -> Call:
    return Call(asked.call, len(asked.ids), len(asked.must_include), asked.size)


def _starts(calls: Collection[Asked]) -> list[tuple[str, ...]]:
    return [each.ids for each in calls if each.call == "start"]


def _healthy(lists: Lists, sick: Collection[str]) -> dict[str, int]:
    return {resource: len(ids.keys() - set(sick)) for resource, ids in lists.items()}


def _shape(value: object) -> object:
    """Names of fields and resources stay; NUMA nodes, and the items of lists, become one example."""
    if isinstance(value, dict):
        return {key if key.strip("-0123456789") else "a node": _shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_shape(one) for one in value[:1]]
    return type(value).__name__


@asynccontextmanager
async def judged(
    kubelet: Kubelet, lists: Lists, behaviour: Mapping[str, Plugin] | None = None
) -> AsyncIterator[Judged]:
    """Plugins that offer ``lists`` at a kubelet, and are plain where no ``behaviour`` is given."""
    folder = kubelet.folder / names.DEVICE_PLUGINS
    plugins = {}
    for resource, ids in lists.items():
        plugin = (behaviour or {}).get(resource, PLAIN)
        plugins[resource] = GpuPlugin(
            folder, ids, resource=resource, preference=plugin.preference, pre_start=plugin.pre_start
        )
    try:
        for each in plugins.values():
            await each.serve_and_register()
        await kubelet.offers(_healthy(lists, ()))
        yield Judged(kubelet, plugins, lists)
    finally:
        for each in plugins.values():
            await each.end()
