"""What the kubelet answers about who holds which devices, and which it could give: its messages become our values.

It must not take an empty answer for an idle node: for a second after its start the kubelet lists nothing, and a
node that runs this agent's pod runs a pod.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from railside_proto.pb import podresources_v1_pb2 as pb


class ClaimedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One device that a resource claim gave a container."""

    claim: str
    namespace: str
    driver: str
    pool: str
    device: str


class ContainerHolding(msgspec.Struct, frozen=True, kw_only=True):
    """What one container holds."""

    namespace: str
    pod: str
    container: str
    devices: Mapping[str, tuple[str, ...]] = {}
    """Ids by resource, sorted."""
    claimed: tuple[ClaimedDevice, ...] = ()
    cpus: tuple[int, ...] = ()
    """Its exclusive CPUs."""


class AllocatableDevice(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One device that the kubelet may give away, or has given."""

    id: str
    numa_nodes: tuple[int, ...] = ()
    """Empty for one that came without a hint."""


class Allocatable(msgspec.Struct, frozen=True, kw_only=True):
    """What the kubelet counts as usable; devices by resource, sorted by id. Unhealthy ones are not in it."""

    devices: Mapping[str, tuple[AllocatableDevice, ...]] = {}
    cpus: tuple[int, ...] = ()
    """Empty unless the kubelet's CPU manager is static."""


class NodeHoldings(msgspec.Struct, frozen=True, kw_only=True):
    """What the kubelet said last."""

    containers: tuple[ContainerHolding, ...]
    """Of those that it was asked for last; none before that."""
    allocatable: Allocatable | None
    """None where the kubelet is too old to say (before 1.23)."""


def holdings(answer: pb.ListPodResourcesResponse) -> tuple[ContainerHolding, ...] | None:
    """What each container holds, those without anything included; None where the kubelet does not know yet."""
    if not answer.pod_resources:
        return None
    return tuple(
        _holding(pod.namespace, pod.name, container)
        for pod in answer.pod_resources
        for container in pod.containers
    )


def allocatable(answer: pb.AllocatableResourcesResponse) -> Allocatable:
    """What can be given. A device on two NUMA nodes comes in two entries, and is one here."""
    nodes: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for entry in answer.devices:
        for one in entry.device_ids:
            nodes[entry.resource_name][one].update(node.ID for node in entry.topology.nodes)
    devices = {
        resource: tuple(AllocatableDevice(id=one, numa_nodes=tuple(sorted(on))) for one, on in sorted(ids.items()))
        for resource, ids in sorted(nodes.items())
    }
    return Allocatable(devices=devices, cpus=tuple(sorted(answer.cpu_ids)))


def _holding(namespace: str, pod: str, container: pb.ContainerResources) -> ContainerHolding:
    return ContainerHolding(
        namespace=namespace,
        pod=pod,
        container=container.name,
        devices=_by_resource(container.devices),
        claimed=tuple(_claimed(container.dynamic_resources)),
        cpus=tuple(sorted(container.cpu_ids)),
    )


def _by_resource(entries: Iterable[pb.ContainerDevices]) -> dict[str, tuple[str, ...]]:
    ids: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        ids[entry.resource_name].update(entry.device_ids)
    return {resource: tuple(sorted(held)) for resource, held in sorted(ids.items())}


def _claimed(claims: Iterable[pb.DynamicResource]) -> Iterable[ClaimedDevice]:
    for claim in claims:
        for given in claim.claim_resources:
            yield ClaimedDevice(
                claim=claim.claim_name,
                namespace=claim.claim_namespace,
                driver=given.driver_name,
                pool=given.pool_name,
                device=given.device_name,
            )
