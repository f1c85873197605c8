"""Who holds what, as the device manager keeps it in memory: by pod UID, container and resource.

It answers for these books (pkg/kubelet/cm/devicemanager: pod_devices.go). It must not know whether a pod lives,
nor what a plugin lists now: ids keep the NUMA nodes that they had when they were dealt.
"""

from collections.abc import Iterator, Mapping

import msgspec

from railside_proto.pb.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse

NO_NODE = -1
"""Stands for the node of ids that came without one."""

Ids = frozenset[str]


class Dealt(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of one resource in one container, by NUMA node, and the Allocate answer that is replayed."""

    by_node: dict[int, tuple[str, ...]]
    answer: ContainerAllocateResponse

    @property
    def ids(self) -> Ids:
        """All of them, whatever the node."""
        return frozenset(device for devices in self.by_node.values() for device in devices)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the books."""

    uid: str
    container: str
    resource: str
    dealt: Dealt


class PodDevices:
    """The books."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str, str], Entry] = {}

    def insert(self, entry: Entry) -> None:
        """Writes one line, over an earlier one of the same container and resource."""
        self._entries[entry.uid, entry.container, entry.resource] = entry

    def delete(self, uids: frozenset[str]) -> None:
        """Forgets pods."""
        self._entries = {key: entry for key, entry in self._entries.items() if entry.uid not in uids}

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries.values()))

    @property
    def uids(self) -> frozenset[str]:
        """Pods that hold something."""
        return frozenset(entry.uid for entry in self)

    def of_container(self, uid: str, container: str) -> Mapping[str, Dealt]:
        """What one container holds, by resource."""
        return {entry.resource: entry.dealt for entry in self if (entry.uid, entry.container) == (uid, container)}

    def ids(self, uid: str, container: str, resource: str) -> Ids | None:
        """Ids of one container and resource; None where nothing was ever dealt."""
        entry = self._entries.get((uid, container, resource))
        return None if entry is None else entry.dealt.ids

    def of_pod(self, uid: str, resource: str) -> Ids:
        """Ids of all containers of a pod."""
        own = (entry.dealt.ids for entry in self if (entry.uid, entry.resource) == (uid, resource))
        return frozenset().union(*own)

    def by_resource(self) -> dict[str, set[str]]:
        """Every id held, by resource."""
        held: dict[str, set[str]] = {}
        for entry in self:
            held.setdefault(entry.resource, set()).update(entry.dealt.ids)
        return held
