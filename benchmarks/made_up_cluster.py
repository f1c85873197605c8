"""A cluster that never was: nodes of two NUMA nodes with four GPUs and four HCAs each, every other nearly full.

It must not measure anything.
"""

from typing import Final

import msgspec

from railside_extender.cluster import Cluster, NodeFacts
from railside_extender.pod_facts import PodFacts, PodObject, pod_facts
from railside_proto.machine import PciAddress
from railside_proto.names import GPU_RESOURCE, RESOURCE
from railside_proto.pool import Mode
from railside_proto.record import (
    Count,
    DeviceKind,
    DeviceRecord,
    KubeletFacts,
    NumaRecord,
    PoolRecord,
    Record,
    Source,
    TopologyPolicy,
    TopologyScope,
)

_BOOT: Final = "boot"
_OF_EACH: Final = 4
"""GPUs, and HCAs, of a NUMA node."""


def made_up(nodes: int) -> Cluster:
    """So many nodes, none of which has a pod."""
    cluster = Cluster()
    for number in range(nodes):
        cluster.see_node(node_name(number), NodeFacts(f"uid-{number}", _BOOT))
        cluster.see_record(node_name(number), record_of(number, is_full=number % 2 == 1), 0.0)
    return cluster


def node_name(number: int) -> str:
    """As long as such names are."""
    return f"gpu-node-{number:05}"


def record_of(number: int, *, is_full: bool) -> Record:
    """A node that is idle, or has one GPU and one HCA left on each NUMA node."""
    free = 1 if is_full else _OF_EACH
    return Record(
        node_uid=f"uid-{number}",
        boot_id=_BOOT,
        version="1",
        kubelet=KubeletFacts(
            source=Source.CONFIGZ,
            topology_policy=TopologyPolicy.RESTRICTED,
            topology_scope=TopologyScope.CONTAINER,
        ),
        pools=(
            PoolRecord(resource=RESOURCE, mode=Mode.IB_SHARED, share=1, registered=True, hcas=8, free=2 * free),
        ),
        numa_nodes=(NumaRecord(number=0, cpus="0-55"), NumaRecord(number=1, cpus="56-111")),
        counts=tuple(
            Count(resource=resource, numa_nodes=(zone,), listed=_OF_EACH, held=_OF_EACH - free, free=free)
            for resource in (GPU_RESOURCE, RESOURCE)
            for zone in (0, 1)
        ),
        devices=tuple(_device(kind, place, place % _OF_EACH < free) for kind in DeviceKind for place in range(8)),
    )


def pod_on(uid: str, node: int) -> PodFacts:
    """A pod of one GPU and one HCA that is on its way to a node."""
    return pod_facts(msgspec.convert(pod_json(uid, count=1, node=node_name(node)), PodObject))


def pod_json(uid: str, *, count: int, node: str = "") -> dict[str, object]:
    """A pod of so many GPUs and HCAs, as the API server has it."""
    asked = {GPU_RESOURCE: str(count), RESOURCE: str(count)}
    container = {"name": "main", "image": "train", "resources": {"limits": asked, "requests": asked}}
    return {
        "metadata": {"uid": uid, "name": uid, "namespace": "default", "labels": {"app": "train"}},
        "spec": {"nodeName": node, "containers": [container], "schedulerName": "railside-scheduler"},
        "status": {"phase": "Pending"},
    }


def _device(kind: DeviceKind, place: int, is_free: bool) -> DeviceRecord:  # noqa: FBT001 -- of a table
    zone = place // _OF_EACH
    port = place if kind is DeviceKind.GPU else place + 8
    return DeviceRecord(
        address=PciAddress(f"0000:{port:02x}:00.0"),
        path=(
            f"pci0000:{zone}0",
            f"0000:{zone}0:0{place}.0",
            f"0000:2{place}:00.0",
            f"0000:3{place}:{port:02x}.0",
        ),
        numa_node=zone,
        kind=kind,
        resource=GPU_RESOURCE if kind is DeviceKind.GPU else RESOURCE,
        kubelet_numa_nodes=(zone,),
        free=int(is_free),
        held=int(not is_free),
    )
