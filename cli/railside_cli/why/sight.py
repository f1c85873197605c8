"""Reads from the API server what an extender would know, once. It must not watch, nor change anything."""

import time
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from railside_extender.cluster import Cluster
from railside_extender.decider import Decider, Policy
from railside_extender.explanation import Explanation, explain
from railside_extender.objects import NodeObject, RecordObject, node_facts, read_record
from railside_extender.pod_facts import PodObject, pod_facts
from railside_proto.decoding import UNDECODABLE
from railside_proto.names import CONFLICTING_RESOURCES, RECORDS, RESOURCE
from railside_runtime.kube import KubeApi
from railside_runtime.kube_error import NOT_FOUND, KubeError
from railside_runtime.picture import read_page

T = TypeVar("T")

_PAGE: Final[Mapping[str, str]] = {"limit": "500"}


class NoSuchPodError(Exception):
    """Raised where there is no such pod, or nobody publishes records; its text is the line to print."""


async def look(api: KubeApi, namespace: str, name: str, resource: str = RESOURCE) -> Explanation:
    """What would be said of the pod now. Raises KubeError, NoSuchPodError."""
    cluster, now = Cluster(resource), time.monotonic()
    for node in await _every(api, "/api/v1/nodes", NodeObject):
        cluster.see_node(node.metadata.name, node_facts(node))
    for record in await _records(api):
        cluster.see_record(record.metadata.name, read_record(record), now)
    for pod in await _every(api, "/api/v1/pods", PodObject):
        cluster.see_pod(pod.metadata.uid, pod_facts(pod), now)
    asked = cluster.find(namespace, name)
    if asked is None:
        raise NoSuchPodError(f"there is no pod {name} in namespace {namespace}")
    policy = Policy(resource=resource, conflicting=frozenset(CONFLICTING_RESOURCES))
    return explain(asked, cluster, Decider(cluster, policy), now)


async def _records(api: KubeApi) -> list[RecordObject]:
    try:
        return await _every(api, RECORDS, RecordObject)
    except KubeError as error:
        if error.status != NOT_FOUND:
            raise
        missing = "this cluster has no RDMANodes: apply deploy/crd, and let the agents publish"
        raise NoSuchPodError(missing) from None


async def _every(api: KubeApi, path: str, kind: type[T]) -> list[T]:
    """All objects at ``path``; one that cannot be read is left out, as it would be by an extender."""
    found: list[T] = []
    query = _PAGE
    while True:
        page = read_page(await api.get(path, query))
        found += [one for raw in page.items or () if (one := _read(raw, kind)) is not None]
        if not page.metadata.more:
            return found
        query = {**_PAGE, "continue": page.metadata.more}


def _read(raw: msgspec.Raw, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(raw, type=kind)
    except UNDECODABLE:
        return None
