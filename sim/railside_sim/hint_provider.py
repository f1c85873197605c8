"""The device manager as it is asked for hints: by the topology manager, before anything is dealt.

It answers for which ids a hint may count on (pkg/kubelet/cm/devicemanager: GetTopologyHints, GetPodTopologyHints).
It must not merge hints, nor deal anything.
"""

from collections.abc import Mapping

from railside_sim.choosing import Ids
from railside_sim.device_memory import DeviceMemory
from railside_sim.hints import Demand, device_hints, has_topology
from railside_sim.pod_spec import ContainerSpec, Pod
from railside_sim.policies import Opinion

_HERE = "GetTopologyHints"


class HintProvider:
    """Opinions of plugins' resources, by ``memory``. Both questions raise KubeletCrashedError."""

    def __init__(self, memory: DeviceMemory, numa_nodes: tuple[int, ...]) -> None:
        self._memory = memory
        self._numa_nodes = numa_nodes

    def of_container(self, pod: Pod, container: ContainerSpec) -> list[Opinion]:
        """Opinions on each of the container's resources; what it holds already speaks for itself."""
        self._memory.purge()
        held = self._memory.held.of_container(pod.uid, container.name)
        return [
            self._again(resource, count, held[resource].ids)
            if resource in held
            else self._first(resource, count, self._memory.reusable(pod.uid).get(resource, frozenset()))
            for resource, count in self._own(container.requests).items()
        ]

    def of_pod(self, pod: Pod) -> list[Opinion]:
        """Opinions on each resource that the whole pod needs."""
        self._memory.purge()
        return [
            self._again(resource, count, held)
            if (held := self._memory.held.of_pod(pod.uid, resource))
            else self._first(resource, count, frozenset())
            for resource, count in self._own(pod.total()).items()
        ]

    def _own(self, requests: Mapping[str, int]) -> dict[str, int]:
        return {resource: count for resource, count in requests.items() if self._memory.knows(resource)}

    def _again(self, resource: str, count: int, held: Ids) -> Opinion:
        """After a restart: the masks that hold what is held, whatever its health."""
        if not self._has_opinion(resource):
            return None
        return () if len(held) != count else self._hints(resource, count, held, frozenset())

    def _first(self, resource: str, count: int, reusable: Ids) -> Opinion:
        if not self._has_opinion(resource):
            return None
        available = self._memory.available(resource)
        enough = len(available | reusable) >= count
        return self._hints(resource, count, available, reusable) if enough else ()

    def _has_opinion(self, resource: str) -> bool:
        return has_topology(self._memory.lists.listed(resource))

    def _hints(self, resource: str, count: int, available: Ids, reusable: Ids) -> Opinion:
        demand = Demand(
            count=count,
            available=self._memory.devices(resource, available, _HERE),
            reusable=self._memory.devices(resource, reusable, _HERE),
        )
        return device_hints(self._memory.lists.listed(resource), demand, self._numa_nodes)
