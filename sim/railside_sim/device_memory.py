"""What the device manager remembers: lists, books, ids that count as allocated, ids to be used again.

It answers for this memory and its checkpoint (pkg/kubelet/cm/devicemanager: manager.go), and for when ended pods
are forgotten. It must not choose ids, nor ask a plugin.
"""

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from railside_sim import checkpoint
from railside_sim.choosing import Ids
from railside_sim.device import ListedDevice, looked_up
from railside_sim.device_lists import DeviceLists
from railside_sim.pod_devices import NO_NODE, PodDevices
from railside_sim.pods import ResourceStatus


class PodBooks(Protocol):
    """What the kubelet's other parts know of pods."""

    @property
    def complete(self) -> bool:
        """Whether all pods of before a restart have been admitted again."""

    def active(self) -> Collection[str]:
        """UIDs of pods that have not ended."""

    def found_running(self, uid: str, container: str) -> bool:
        """Whether the container was found running when the kubelet started."""


class DeviceMemory:
    """The memory of one start of the kubelet: ``read`` the checkpoint first."""

    def __init__(self, file: Path, pods: PodBooks, *, by_node: bool = True) -> None:
        self._file = file
        self._by_node = by_node
        self._writing = asyncio.Lock()
        self._allocated: dict[str, set[str]] = {}
        self._reusable: tuple[str, dict[str, Ids]] = ("", {})
        self.pods = pods
        self.lists = DeviceLists(())
        self.held = PodDevices()

    async def read(self) -> None:
        """Takes over what the checkpoint says."""
        kept = await asyncio.to_thread(checkpoint.read, self._file)
        for entry in kept.entries:
            self.held.insert(entry)
        self.recount()
        self.lists = DeviceLists(kept.registered)

    async def write(self) -> None:
        """Writes the checkpoint as things are now."""
        async with self._writing:
            healthy = {resource: sorted(ids) for resource, ids in self.lists.registered().items()}
            entries = tuple(self.held)
            await asyncio.to_thread(checkpoint.write, self._file, entries, healthy, by_node=self._by_node)

    def purge(self) -> None:
        """Forgets pods that have ended, and then, with them, ids that are in flight for a pod of now."""
        ended = self.held.uids - frozenset(self.pods.active())
        if self.pods.complete and ended:
            self.held.delete(ended)
            self.recount()

    def recount(self) -> None:
        """Takes for allocated what the books say, and nothing else."""
        self._allocated = self.held.by_resource()

    def count(self, resource: str, ids: Ids) -> None:
        """Takes ids for allocated that are not in the books yet."""
        self._allocated.setdefault(resource, set()).update(ids)

    def room(self, uid: str) -> dict[str, ResourceStatus]:
        """The node's status as a pod is held against it: if it holds anything, all that is dealt has room."""
        status = self.lists.status()
        if uid in self.held.uids:
            for resource, ids in self._allocated.items():
                known = status.get(resource, ResourceStatus())
                status[resource] = ResourceStatus(
                    capacity=known.capacity, allocatable=max(len(ids), known.allocatable)
                )
        return status

    def knows(self, resource: str) -> bool:
        """Whether the resource is taken for a plugin's."""
        return self.lists.healthy(resource) is not None or resource in self._allocated

    def available(self, resource: str) -> Ids:
        """Healthy ids that do not count as allocated."""
        return (self.lists.healthy(resource) or frozenset()) - self._allocated.get(resource, set())

    def devices(self, resource: str, ids: Ids, where: str) -> list[ListedDevice]:
        """What the list says of ids. Raises KubeletCrashedError, which names ``where``."""
        listed = self.lists.listed(resource)
        return [looked_up(listed, device, resource, where) for device in sorted(ids)]

    def by_node(self, resource: str, ids: Ids, where: str) -> dict[int, tuple[str, ...]]:
        """The ids by NUMA node as the list has it now, those of several nodes at each. Raises as ``devices``."""
        by_node: dict[int, tuple[str, ...]] = {}
        for device in self.devices(resource, ids, where):
            for node in sorted(device.numa or {NO_NODE}):
                by_node[node] = (*by_node.get(node, ()), device.id)
        return by_node

    def reusable(self, uid: str) -> Mapping[str, Ids]:
        """Ids of a pod's init containers that went to no later container, by resource; of the last pod only."""
        last, reusable = self._reusable
        return reusable if last == uid else {}

    def reuse(self, uid: str, container: str, *, ends: bool) -> None:
        """After a container was dealt its ids: they may be used again if it ends, and not if it stays."""
        reusable = dict(self.reusable(uid))
        for resource, dealt in self.held.of_container(uid, container).items():
            before = reusable.get(resource, frozenset())
            reusable[resource] = before | dealt.ids if ends else before - dealt.ids
        self._reusable = (uid, reusable)
