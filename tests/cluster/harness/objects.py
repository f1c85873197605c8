"""Answers for the few fields of Kubernetes objects that the cluster tests look at.

It must not hold behaviour beyond reading itself; unknown fields are ignored.
"""

from typing import ClassVar, Protocol

import msgspec


class Stored(Protocol):
    """A type of object that the API server stores: where it lies, and what it is called."""

    PATH: ClassVar[str]


class _Struct(msgspec.Struct, frozen=True, rename="camel"):
    pass


class Metadata(_Struct, frozen=True):
    name: str
    uid: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Condition(_Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class Taint(_Struct, frozen=True):
    key: str


class NodeSpec(_Struct, frozen=True):
    taints: list[Taint] = []


class NodeStatus(_Struct, frozen=True):
    conditions: list[Condition] = []
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}


class Node(_Struct, frozen=True):
    PATH: ClassVar[str] = "/api/v1/nodes"
    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def usable(self) -> bool:
        """Ready, and without a taint that keeps pods away."""
        ready = any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)
        return ready and not self.spec.taints


class Reasoned(_Struct, frozen=True):
    reason: str = ""
    message: str = ""


class Running(_Struct, frozen=True):
    started_at: str = ""


class Terminated(_Struct, frozen=True):
    exit_code: int
    reason: str = ""


class ContainerState(_Struct, frozen=True):
    waiting: Reasoned | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(_Struct, frozen=True):
    name: str
    container_id: str = msgspec.field(default="", name="containerID")
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodSpec(_Struct, frozen=True):
    node_name: str = ""


class PodStatus(_Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []


class Pod(_Struct, frozen=True):
    PATH: ClassVar[str] = "/api/v1/namespaces/{namespace}/pods"
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def running(self) -> bool:
        """All its containers run and are ready."""
        return self.status.phase == "Running" and all(one.ready for one in self.status.container_statuses)


class Pods(_Struct, frozen=True):
    items: list[Pod]


class ServiceAccount(_Struct, frozen=True):
    PATH: ClassVar[str] = "/api/v1/namespaces/{namespace}/serviceaccounts"
    metadata: Metadata
