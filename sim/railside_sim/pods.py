"""What is asked of the embedded kubelet and what comes of it, as values.

It answers for their shape. It must not do anything.
"""

import msgspec

from railside_proto import names
from railside_proto.machine import DeviceNode


class PodRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of one container that asks for ``count`` (at least 1) of one extended resource."""

    name: str
    count: int = 1
    resource: str = names.RESOURCE

    def __post_init__(self) -> None:
        """Refuses a pod that asks for nothing, with ValueError: the kubelet would never ask a plugin for it."""
        if self.count < 1:
            raise ValueError(f"pod {self.name} asks for {self.count}; allowed is 1 or more")


class ContainerDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device node in a container: its path there, its numbers, and letters of r, w, m."""

    path: str
    node: DeviceNode
    permissions: str


class ContainerMount(msgspec.Struct, frozen=True, kw_only=True):
    """A mount that the plugin asked for. The host's path is not looked at."""

    container_path: str
    host_path: str
    read_only: bool


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """The container runs. ``seats`` are the kubelet's device ids, sorted; ``devices`` are sorted by path."""

    pod: str
    seats: tuple[str, ...]
    devices: tuple[ContainerDevice, ...]
    mounts: tuple[ContainerMount, ...]
    envs: dict[str, str]


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """The pod waits: without seats for room, with seats for a container start that works."""

    pod: str
    reason: str
    seats: tuple[str, ...] = ()


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The kubelet turned the pod away for good; it holds nothing."""

    pod: str
    reason: str


Outcome = Running | Pending | Failed


class ResourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the node's status says of one resource: ids listed, and ids healthy."""

    capacity: int = 0
    allocatable: int = 0
