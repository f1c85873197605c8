"""What is asked of the embedded kubelet in short, and what comes of a pod, as values.

It answers for their shape. It must not do anything.
"""

from collections.abc import Mapping

import msgspec

from railside_proto import names
from railside_proto.machine import DeviceNode
from railside_sim.pod_spec import ContainerSpec, Pod


class PodRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The short form: a pod of one container that asks for ``count`` (at least 1) of one extended resource."""

    name: str
    count: int = 1
    resource: str = names.RESOURCE

    def __post_init__(self) -> None:
        """Refuses a pod that asks for nothing, with ValueError."""
        if self.count < 1:
            raise ValueError(f"pod {self.name} asks for {self.count}; allowed is 1 or more")

    @property
    def pod(self) -> Pod:
        """The same in the long form."""
        return Pod(name=self.name, containers=(ContainerSpec(requests={self.resource: self.count}),))


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


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """One container at its last start: its ids by resource, sorted, and what it saw, devices sorted by path."""

    name: str
    ids: Mapping[str, tuple[str, ...]] = {}
    devices: tuple[ContainerDevice, ...] = ()
    mounts: tuple[ContainerMount, ...] = ()
    envs: Mapping[str, str] = {}


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """All containers run. ``init`` are those that went before, sidecars among them.

    A pod of one container has its devices, mounts and environment for its own.
    """

    pod: str
    containers: tuple[Started, ...]
    init: tuple[Started, ...] = ()

    @property
    def seats(self) -> tuple[str, ...]:
        """The kubelet's device ids of the whole pod, sorted; whatever their resource."""
        every = (*self.init, *self.containers)
        return tuple(sorted({one for started in every for ids in started.ids.values() for one in ids}))

    @property
    def devices(self) -> tuple[ContainerDevice, ...]:
        """Those of the only container."""
        return self._only.devices

    @property
    def mounts(self) -> tuple[ContainerMount, ...]:
        """Those of the only container."""
        return self._only.mounts

    @property
    def envs(self) -> Mapping[str, str]:
        """Those of the only container."""
        return self._only.envs

    def ids(self, resource: str = names.RESOURCE) -> tuple[str, ...]:
        """The pod's ids of one resource, sorted."""
        every = (*self.init, *self.containers)
        return tuple(sorted({one for started in every for one in started.ids.get(resource, ())}))

    @property
    def _only(self) -> Started:
        (only,) = self.containers
        return only


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """The pod waits: without seats for room, with seats for a container start that works."""

    pod: str
    reason: str
    seats: tuple[str, ...] = ()


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The kubelet turned the pod away for good, at its admission or at a restart; it holds nothing for long."""

    pod: str
    reason: str


Outcome = Running | Pending | Failed


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why the kubelet does not admit a pod, in its words: the pod's ``reason`` and ``message``."""

    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


class ResourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the node's status says of one resource: ids listed, and ids healthy."""

    capacity: int = 0
    allocatable: int = 0


def unexpected(error: str) -> Refusal:
    """The refusal that the kubelet makes of an error while it deals devices (pkg/kubelet/cm/admission)."""
    return Refusal(
        reason="UnexpectedAdmissionError",
        message=f"Allocate failed due to {error}, which is unexpected",
    )
