"""What a node's record says of how its kubelet will admit: the room, the rule and the scope.

It answers for records of all kinds, also absurd ones: what cannot be is a reason, and harms no other node. It must
not know pods.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from railside_extender.admission import Release, Rule
from railside_extender.layout import Layout, layout
from railside_extender.room import Group, Room, Supply, mask_of
from railside_proto.cpu_list import cpu_count
from railside_proto.names import CPU_RESOURCE, MEMORY_RESOURCE
from railside_proto.reasons import Code, Reason, reason
from railside_proto.record import Count, KubeletFacts, NumaRecord, Record, TopologyScope

MOST_NUMA_NODES: Final = 8
"""The kubelet's topology manager starts with no more, unless its option max-allowable-numa-nodes says so."""

_CLOSEST: Final = "prefer-closest-numa-nodes=true"
_STATIC: Final = "static"
_STATIC_MEMORY: Final = "Static"


class Terms(msgspec.Struct, frozen=True, cache_hash=True):
    """How a kubelet will admit. Nodes on equal terms are the same to every pod."""

    rule: Rule
    scope: TopologyScope
    room: Room
    untold: frozenset[str] = frozenset()
    """CPUs or memory, where the kubelet aligns them and nobody knows how much is left."""
    layout: Layout = Layout()
    """Where what is free sits."""
    whole: Layout = Layout()
    """Where everything sits."""


def terms(record: Record, resource: str) -> Terms | Reason:
    """The terms that ``record`` tells, or why it tells none; HCAs of ``resource`` are laid out."""
    kubelet = record.kubelet
    if kubelet.topology_policy is None or kubelet.topology_scope is None:
        return reason(Code.POLICY_NOT_TOLD, detail=kubelet.detail or "its configuration was not read")
    numa_nodes = tuple(sorted({node.number for node in record.numa_nodes}))
    absurd = _absurd(record, numa_nodes)
    if absurd is not None:
        return reason(Code.RECORD_ABSURD, detail=absurd)
    rule = Rule(kubelet.topology_policy, closest=_CLOSEST in kubelet.topology_options)
    room = _room(record, numa_nodes)
    free, whole = layout(record, resource), layout(record, resource, whole=True)
    return Terms(rule, kubelet.topology_scope, room, _untold(kubelet, room), free, whole)


def told(record: Record) -> Record:
    """What is kept of a record beside its terms: no devices, of which a cluster has a hundred thousand."""
    return msgspec.structs.replace(record, devices=(), excluded=())


def releases(record: Record, found: Terms | Reason | None) -> tuple[Release, ...]:
    """What each pod that holds something of the room gives back when it ends."""
    if not isinstance(found, Terms):
        return ()
    return tuple(sorted(amounts(pod.held, found.room, record.counts) for pod in record.pods))


def amounts(
    counts: Iterable[Count], room: Room, every: Iterable[Count]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """What ``counts`` hold of each supply of ``room`` that records count, by the groups of ``every`` count."""
    hints = {resource: _hints(every, resource) for resource, _ in room.supplies}
    order = {resource: found for resource, found in hints.items() if found}
    held = {(one.resource, one.numa_nodes): one.held for one in counts}
    return tuple(
        (resource, tuple(held.get((resource, hint), 0) for hint in found)) for resource, found in order.items()
    )


def without(record: Record, pods: frozenset[str]) -> Record:
    """The record as it will be when ``pods`` have gone, all that they hold being well."""
    given: Counter[tuple[str, tuple[int, ...]]] = Counter()
    for count in (count for pod in record.pods if pod.pod in pods for count in pod.held):
        given[count.resource, count.numa_nodes] += count.held
    return msgspec.structs.replace(
        record,
        counts=tuple(_given_back(one, given[one.resource, one.numa_nodes]) for one in record.counts),
        holders=tuple(one for one in record.holders if one.pod not in pods),
        pods=tuple(one for one in record.pods if one.pod not in pods),
    )


def _given_back(count: Count, given: int) -> Count:
    given = min(given, count.held)
    return msgspec.structs.replace(count, held=count.held - given, free=count.free + given)


def _room(record: Record, numa_nodes: tuple[int, ...]) -> Room:
    resources = sorted({one.resource for one in record.counts if one.numa_nodes})
    supplies = [(resource, _supply(record.counts, resource, numa_nodes)) for resource in resources]
    cpus = _cpus(record.kubelet, record.numa_nodes)
    return Room(numa_nodes, tuple(sorted([*supplies, *cpus])))


def _supply(counts: tuple[Count, ...], resource: str, numa_nodes: tuple[int, ...]) -> Supply:
    by_hint = {one.numa_nodes: one for one in counts if one.resource == resource}
    found = ((hint, by_hint[hint]) for hint in _hints(counts, resource))
    return Supply(tuple(Group(mask_of(hint, numa_nodes), one.listed, one.free) for hint, one in found))


def _hints(counts: Iterable[Count], resource: str) -> list[tuple[int, ...]]:
    return sorted(one.numa_nodes for one in counts if one.resource == resource)


def _cpus(kubelet: KubeletFacts, nodes: tuple[NumaRecord, ...]) -> list[tuple[str, Supply]]:
    """CPUs as a supply, where the CPU manager gives them away and says how many there are."""
    told = [node for node in nodes if node.allocatable_cpus is not None]
    if kubelet.cpu_policy != _STATIC or len(told) != len(nodes):
        return []
    groups = (
        Group(1 << node.number, cpu_count(node.cpus) or 0, (node.allocatable_cpus or 0) - node.exclusive_cpus)
        for node in nodes
    )
    return [(CPU_RESOURCE, Supply(tuple(groups)))]


def _untold(kubelet: KubeletFacts, room: Room) -> frozenset[str]:
    cpus = {CPU_RESOURCE} if kubelet.cpu_policy == _STATIC and CPU_RESOURCE not in room.aligned else set()
    return frozenset(cpus | ({MEMORY_RESOURCE} if kubelet.memory_policy == _STATIC_MEMORY else set()))


def _absurd(record: Record, numa_nodes: tuple[int, ...]) -> str | None:
    """What no honest agent would say."""
    if not numa_nodes or len(numa_nodes) > MOST_NUMA_NODES or numa_nodes[0] < 0 or numa_nodes[-1] > _HIGHEST:
        return (
            f"it has NUMA nodes {list(numa_nodes)}; allowed are one to {MOST_NUMA_NODES}, up to number {_HIGHEST}"
        )
    for one in record.counts:
        if min(one.listed, one.held, one.free) < 0 or one.held + one.free > one.listed:
            return f"of {one.resource} {one.listed} are listed, {one.held} held and {one.free} free"
    for node in record.numa_nodes:
        given = (node.exclusive_cpus, node.allocatable_cpus or node.exclusive_cpus, cpu_count(node.cpus) or 0)
        if sorted(given) != list(given) or given[0] < 0:
            return f"of CPUs {node.cpus} of NUMA node {node.number} {given[0]} are taken, out of {given[1]}"
    keys = [(one.resource, one.numa_nodes) for one in record.counts]
    return None if len(set(keys)) == len(keys) else "it counts the same NUMA nodes of a resource twice"


_HIGHEST: Final = 1023
"""The kernel has no NUMA node beyond (CONFIG_NODES_SHIFT)."""
