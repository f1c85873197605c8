"""What the plugins have told: ids, their health, and which plugin speaks for which resource.

It answers for this part of the device manager's memory and for the counts in the node's status
(pkg/kubelet/cm/devicemanager: manager.go). It must not know who holds an id.
"""

from collections.abc import Iterable, Mapping

from railside_sim.device import Listed, ListedDevice
from railside_sim.plugin_client import PluginClient
from railside_sim.pods import ResourceStatus


class DeviceLists:
    """Empty at the kubelet's start but for ``known``: resources of the checkpoint, whose plugins are to come."""

    def __init__(self, known: Iterable[str]) -> None:
        self._listed: dict[str, dict[str, ListedDevice]] = {}
        self._healthy: dict[str, set[str]] = {resource: set() for resource in known}
        self._counted: dict[str, set[str]] = {resource: set() for resource in self._healthy}
        self._plugins: dict[str, PluginClient | None] = dict.fromkeys(self._healthy)

    def connected(self, resource: str, plugin: PluginClient) -> None:
        """A plugin registered; what the one before it told stands until it tells its own."""
        self._plugins[resource] = plugin

    def told(self, resource: str, devices: Iterable[ListedDevice]) -> None:
        """A list came, whole."""
        listed = {device.id: device for device in devices}
        self._listed[resource] = listed
        self._counted[resource] = set(listed)
        self._healthy[resource] = {device.id for device in listed.values() if device.healthy}

    def disconnected(self, resource: str) -> None:
        """The plugin went: nothing of it is healthy, all of it still counts as capacity."""
        self._healthy[resource] = set()

    def forget_gone(self) -> None:
        """Five minutes pass: resources whose plugin has gone are no longer this node's."""
        for resource, plugin in tuple(self._plugins.items()):
            if plugin is None or plugin.stopped:
                del self._plugins[resource]
                self._healthy.pop(resource, None)
                self._counted.pop(resource, None)

    def listed(self, resource: str) -> Listed:
        """The ids as they last came, in the plugin's order, with the health that they came with."""
        return self._listed.get(resource, {})

    def healthy(self, resource: str) -> frozenset[str] | None:
        """Ids that may be dealt; None for a resource that no plugin ever registered."""
        ids = self._healthy.get(resource)
        return None if ids is None else frozenset(ids)

    def registered(self) -> Mapping[str, frozenset[str]]:
        """Healthy ids by resource, as the checkpoint has them."""
        return {resource: frozenset(ids) for resource, ids in self._healthy.items()}

    def has_plugin(self, resource: str) -> bool:
        """Whether a plugin is known for the resource, gone or still to come."""
        return resource in self._plugins

    def plugin(self, resource: str) -> PluginClient | None:
        """The plugin, gone or not; None before it registers."""
        return self._plugins.get(resource)

    def status(self) -> dict[str, ResourceStatus]:
        """Capacity (all ids) and allocatable (healthy ones) by resource."""
        return {
            resource: ResourceStatus(capacity=len(counted), allocatable=len(self._healthy[resource]))
            for resource, counted in sorted(self._counted.items())
        }
