"""The judge of tests of the extender: the embedded kubelet's admission, without sockets, files or tasks.

It answers for one node's kubelet and its pods. It must not share a line with what it judges.
"""

import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from railside_proto.pb.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse
from railside_sim.chance import Luck
from railside_sim.device import ListedDevice
from railside_sim.device_manager import DeviceManager
from railside_sim.device_memory import DeviceMemory
from railside_sim.hint_provider import HintProvider
from railside_sim.plugin_client import PluginClient
from railside_sim.pod_spec import Pod
from railside_sim.policies import Policy
from railside_sim.topology_manager import Scope, TopologyManager

Devices = Mapping[str, tuple[ListedDevice, ...]]
"""What the plugins list, by resource."""


class _Plugin:
    """A plugin that prefers anything or nothing."""

    is_told_of_starts = False
    stopped = False

    def __init__(self, rng: random.Random, between: Callable[[], None]) -> None:
        self._rng = rng
        self._between = between

    async def preferred(self, available: list[str], must_include: list[str], count: int) -> frozenset[str]:
        rest = [one for one in available if one not in must_include]
        chosen = self._rng.sample(rest, min(len(rest), count - len(must_include)))
        return frozenset([*must_include, *chosen]) if self._rng.random() < 0.7 else frozenset()

    async def allocate(self, ids: list[str]) -> ContainerAllocateResponse:
        assert ids
        self._between()
        return ContainerAllocateResponse()


class _Books:
    complete = True

    def __init__(self) -> None:
        self.uids: set[str] = set()

    def active(self) -> set[str]:
        return self.uids

    def found_running(self, uid: str, container: str) -> bool:
        del uid, container
        return False


class _Memory(DeviceMemory):
    """Writes no checkpoint: nobody restarts here."""

    async def write(self) -> None:
        pass


class Judge:
    """One kubelet of ``numa_nodes``, with plugins that list ``devices``."""

    def __init__(
        self, rng: random.Random, policy: Policy, scope: Scope, numa_nodes: tuple[int, ...], devices: Devices
    ) -> None:
        self._books = _Books()
        self.between: Callable[[], None] = lambda: None
        """Called in the middle of each deal, where the kubelet waits for a plugin."""
        self._memory = _Memory(Path(), self._books)
        self.devices = devices
        self.numa_nodes = numa_nodes
        for resource, listed in devices.items():
            self._memory.lists.connected(resource, cast("PluginClient", _Plugin(rng, self._interrupted)))
            self._memory.lists.told(resource, listed)
        dealing = DeviceManager(self._memory, Luck(rng))
        hints = HintProvider(self._memory, numa_nodes)
        self._topology = TopologyManager(policy, scope, numa_nodes, hints, dealing)
        self.policy, self.scope = policy, scope

    def _interrupted(self) -> None:
        self.between()

    @property
    def pods(self) -> tuple[str, ...]:
        """UIDs of pods that hold something, or could."""
        return tuple(sorted(self._books.uids))

    def admit(self, pod: Pod) -> str | None:
        """Why the kubelet turns ``pod`` away; None where it does not."""
        self._books.uids.add(pod.uid)
        refusal = _at_once(self._topology.admit(pod))
        if refusal is not None:
            self._books.uids.discard(pod.uid)
        return None if refusal is None else str(refusal)

    def remove(self, uid: str) -> None:
        """The pod has ended."""
        self._books.uids.discard(uid)
        self._memory.purge()

    def has_room(self, pod: Pod) -> bool:
        """Whether the scheduler's count lets ``pod`` through."""
        self._memory.purge()
        return all(
            len(self._memory.available(resource)) >= count
            for resource, count in pod.total().items()
            if resource in self.devices
        )

    def free(self, resource: str) -> Counter[frozenset[int] | None]:
        """How many ids are well and in nobody's hands, by the NUMA nodes of their hints."""
        self._memory.purge()
        available = self._memory.available(resource)
        return Counter(device.numa for device in self.devices[resource] if device.id in available)

    def held(self, uid: str, resource: str) -> Counter[frozenset[int] | None]:
        """How many well ids a pod would give back, likewise."""
        ids = self._memory.held.of_pod(uid, resource)
        return Counter(device.numa for device in self.devices[resource] if device.id in ids and device.healthy)


def _at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 -- whatever it returns
    """What a coroutine that waits for nothing returns."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits for something")


def listed(spelt: str) -> Iterator[ListedDevice]:
    """``g0@0 g1@1! g2@01 g3``: an id, the digits of its NUMA nodes, and ``!`` for an ill one."""
    for word in spelt.split():
        name, _, nodes = word.rstrip("!").partition("@")
        numa = frozenset(map(int, nodes)) if nodes else None
        yield ListedDevice(id=name, healthy=not word.endswith("!"), numa=numa)
