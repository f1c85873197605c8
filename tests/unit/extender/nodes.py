"""Records and pods as tests of the extender need them, each in one line.

It answers for a node of two NUMA nodes with four GPUs and four HCAs on each. It must not know any rule.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from railside_extender.cluster import Cluster, NodeFacts
from railside_extender.pod_facts import PodFacts, PodObject, pod_facts
from railside_proto.names import GPU_RESOURCE, LOCALITY, RESOURCE
from railside_proto.pool import Mode
from railside_proto.record import (
    Count,
    HolderRecord,
    KubeletFacts,
    NumaRecord,
    PodHolding,
    PoolRecord,
    Record,
    Source,
    TopologyPolicy,
    TopologyScope,
)

RESTRICTED, SINGLE = TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE
BEST_EFFORT, NONE = TopologyPolicy.BEST_EFFORT, TopologyPolicy.NONE
_AGENT = "agent-"


def counts(resource: str, *nodes: tuple[int, int, int]) -> tuple[Count, ...]:
    """Listed, held and free of each NUMA node."""
    return tuple(
        Count(resource=resource, numa_nodes=(number,), listed=listed, held=held, free=free)
        for number, (listed, held, free) in enumerate(nodes)
    )


def record(
    name: str = "a",
    *,
    policy: TopologyPolicy | None = RESTRICTED,
    scope: TopologyScope | None = TopologyScope.CONTAINER,
    hcas: tuple[int, ...] = (4, 4),
    gpus: tuple[int, ...] = (4, 4),
    holders: Mapping[str, Mapping[str, tuple[int, ...]]] | None = None,
    **changes: object,
) -> Record:
    """A node with so many ``hcas`` and ``gpus`` free on its NUMA nodes, of four each; the rest is held or ill."""
    found = Record(
        node_uid=f"uid-{name}",
        boot_id="boot",
        agent_uid=f"{_AGENT}{name}",
        version="1",
        kubelet=KubeletFacts(source=Source.CONFIGZ, topology_policy=policy, topology_scope=scope),
        pools=(
            PoolRecord(resource=RESOURCE, mode=Mode.IB_SHARED, share=1, registered=True, hcas=8, free=sum(hcas)),
        ),
        numa_nodes=tuple(NumaRecord(number=number, cpus=f"{8 * number}-{8 * number + 7}") for number in (0, 1)),
        counts=(
            *counts(GPU_RESOURCE, *((4, 4 - free, free) for free in gpus)),
            *counts(RESOURCE, *((4, 4 - free, free) for free in hcas)),
        ),
        holders=tuple(
            HolderRecord(pod=pod, container="main", held=_held(amounts))
            for pod, amounts in (holders or {}).items()
        ),
        pods=tuple(PodHolding(pod=pod, held=_held(amounts)) for pod, amounts in (holders or {}).items()),
    )
    return msgspec.structs.replace(found, **changes)


def _held(amounts: Mapping[str, tuple[int, ...]]) -> tuple[Count, ...]:
    return tuple(
        Count(resource=resource, numa_nodes=(number,), listed=held, held=held, free=0)
        for resource, nodes in amounts.items()
        for number, held in enumerate(nodes)
        if held
    )


def pod_json(name: str = "new", *, gpus: int = 0, hcas: int = 0, node: str = "", **more: Any) -> dict[str, Any]:  # noqa: ANN401 -- JSON
    """A pod of one container as the API server has it; ``more`` replaces whole parts."""
    limits = {key: str(count) for key, count in ((GPU_RESOURCE, gpus), (RESOURCE, hcas)) if count}
    annotations = {LOCALITY: more.pop("locality")} if "locality" in more else {}
    return {
        "metadata": {"uid": f"uid-{name}", "name": name, "namespace": "default", "annotations": annotations},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"limits": {**limits, **more.pop("limits", {})}}}],
        },
        "status": {"phase": "Pending"},
        **more,
    }


def pod(name: str = "new", **asked: Any) -> PodFacts:  # noqa: ANN401 -- as above
    """The same as the extender keeps it."""
    return pod_facts(msgspec.convert(pod_json(name, **asked), PodObject))


def agent(node: str, *, ready: bool = True) -> PodFacts:
    """The agent's pod on a node."""
    found = {
        "metadata": {
            "uid": f"{_AGENT}{node}",
            "name": "agent",
            "namespace": "railside",
        },
        "spec": {"nodeName": node, "containers": [{"name": "agent"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]},
    }
    return pod_facts(msgspec.convert(found, PodObject))


def cluster(*records: Record, **named: Record) -> Cluster:
    """A cluster of nodes ``a``, ``b``, ... or of those ``named``, whose agents are all ready."""
    known = Cluster()
    for name, found in {**dict(zip("abcdefgh", records, strict=False)), **named}.items():
        known.see_node(name, NodeFacts(found.node_uid, found.boot_id))
        known.see_record(name, found, 0.0)
        known.see_pod(found.agent_uid, agent(name), 0.0)
    return known
