"""Pod admission by the topology manager: whose hints are merged together, and dealing by what comes of them.

It answers for the scopes (pkg/kubelet/cm/topologymanager: scope_container.go, scope_pod.go, scope_none.go). It
must not know how hints are made or merged.
"""

from typing import Final, Literal

from railside_sim.device_manager import DeviceManager
from railside_sim.hint_provider import HintProvider
from railside_sim.hints import Mask
from railside_sim.pod_spec import ContainerSpec, Pod
from railside_sim.pods import Refusal
from railside_sim.policies import Opinion, Policy, Verdict, merge

Scope = Literal["container", "pod"]

NOT_ALIGNED: Final = Refusal(
    reason="TopologyAffinityError",
    message="Resources cannot be allocated with Topology locality",
)


class TopologyManager:
    """Admits by ``policy`` and ``scope``. Raises KubeletCrashedError where the real kubelet would end."""

    def __init__(
        self,
        policy: Policy,
        scope: Scope,
        numa_nodes: tuple[int, ...],
        hints: HintProvider,
        devices: DeviceManager,
    ) -> None:
        self._policy = policy
        self._scope = scope
        self._numa_nodes = numa_nodes
        self._hints = hints
        self._devices = devices

    async def admit(self, pod: Pod) -> Refusal | None:
        """Deals each container of the pod what it has not got, in order; the first refusal ends it."""
        if self._policy != "none" and self._scope == "pod":
            return await self._admit_whole(pod)
        for container in pod.in_order():
            refusal = await self._admit_container(pod, container)
            if refusal is not None:
                return refusal
        return None

    async def _admit_whole(self, pod: Pod) -> Refusal | None:
        verdict = self._merged(self._hints.of_pod(pod))
        if not verdict.admitted:
            return NOT_ALIGNED
        for container in pod.in_order():
            refusal = await self._deal(pod, container, verdict.affinity)
            if refusal is not None:
                return refusal
        return None

    async def _admit_container(self, pod: Pod, container: ContainerSpec) -> Refusal | None:
        if self._policy == "none":
            return await self._deal(pod, container, None)
        verdict = self._merged(self._hints.of_container(pod, container))
        return await self._deal(pod, container, verdict.affinity) if verdict.admitted else NOT_ALIGNED

    def _merged(self, opinions: list[Opinion]) -> Verdict:
        return merge(self._policy, opinions, self._numa_nodes)

    async def _deal(self, pod: Pod, container: ContainerSpec, affinity: Mask | None) -> Refusal | None:
        return await self._devices.allocate(pod, container, affinity)
