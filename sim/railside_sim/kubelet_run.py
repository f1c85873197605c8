"""One run of the kubelet, from its start to its end: its parts, and the sockets that it serves.

It answers for what a kubelet knows only while it runs. It must not outlive a stop: the next start makes another.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

from railside_proto import names
from railside_sim.ages import Age
from railside_sim.chance import Chance
from railside_sim.device import ListedDevice
from railside_sim.device_manager import DeviceManager
from railside_sim.device_memory import DeviceMemory
from railside_sim.grpc_server import MortalServer
from railside_sim.hint_provider import HintProvider
from railside_sim.node_pods import NodePods
from railside_sim.plugin_client import PluginClient
from railside_sim.podresources import PodResources
from railside_sim.policies import Policy
from railside_sim.registry import PluginRegistry
from railside_sim.topology_manager import Scope, TopologyManager


class KubeletRun:
    """Made stopped. ``changed`` is called after each change that a plugin brings."""

    def __init__(
        self,
        kubelet_dir: Path,
        pods: NodePods,
        chance: Chance,
        topology: tuple[Policy, Scope, tuple[int, ...]],
        changed: Callable[[], Awaitable[None]],
        age: Age,
    ) -> None:
        folder = kubelet_dir / names.DEVICE_PLUGINS
        self._changed = changed
        self._socket = kubelet_dir / names.POD_RESOURCES / names.KUBELET_SOCKET
        self.memory = DeviceMemory(folder / names.KUBELET_CHECKPOINT, pods, by_node=age.writes_nodes)
        self.devices = DeviceManager(self.memory, chance)
        policy, scope, numa_nodes = topology
        hints = HintProvider(self.memory, numa_nodes)
        self.topology = TopologyManager(policy, scope, numa_nodes, hints, self.devices)
        self._registry = PluginRegistry(folder, self, age)
        self._pod_resources = MortalServer([PodResources(self.memory, pods, age)])

    async def start(self) -> None:
        """Takes over the checkpoint, deletes all sockets in device-plugins, and serves. Raises OSError."""
        await self.memory.read()
        self._socket.parent.mkdir(parents=True, exist_ok=True)
        await self._pod_resources.serve(self._socket)
        await self._registry.start()

    async def stop(self) -> None:
        """Hangs up on everybody."""
        await self._registry.stop()
        await self._pod_resources.end()
        await self._changed()

    async def connected(self, resource: str, plugin: PluginClient) -> None:
        """A plugin registered."""
        self.memory.lists.connected(resource, plugin)
        await self._changed()

    async def told(self, resource: str, devices: tuple[ListedDevice, ...]) -> None:
        """A plugin told its list: it is written down at once, and so is who holds what."""
        self.memory.lists.told(resource, devices)
        await self.memory.write()
        await self._changed()

    async def disconnected(self, resource: str) -> None:
        """A plugin has gone."""
        self.memory.lists.disconnected(resource)
        await self._changed()
