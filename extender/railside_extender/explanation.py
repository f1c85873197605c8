"""Why a pod may go to which nodes, with each node's own numbers: what a person asks.

It must not decide: it shows what the filter would say now, and what that rests on.
"""

from collections.abc import Iterator

import msgspec

from railside_extender.cluster import Cluster
from railside_extender.decider import Decider
from railside_extender.fit import Standing
from railside_extender.pod_facts import PodFacts
from railside_proto.podspec import Nonsense
from railside_proto.reasons import Reason
from railside_proto.record import HolderRecord, Record


class ZoneNumbers(msgspec.Struct, frozen=True, rename="camel"):
    """What a kubelet counts of a resource on NUMA nodes."""

    resource: str
    numa_nodes: tuple[int, ...]
    listed: int
    free: int


class NodeExplained(msgspec.Struct, frozen=True, rename="camel"):
    """One node."""

    node: str
    fit: bool
    score: int
    text: str | None
    """Why it is no fit, as the scheduler shows it."""
    never: bool
    policy: str | None
    scope: str | None
    numbers: tuple[ZoneNumbers, ...] = ()
    on_their_way: tuple[str, ...] = ()
    """Pods that are bound there, and that its record does not show whole yet."""
    held_for: tuple[str, ...] = ()
    """UIDs of pods that were offered it, and are seen nowhere yet."""


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """What is said of one pod."""

    pod: str
    uid: str
    node: str
    """Where it is bound; empty while it is not."""
    locality: str | None
    asks: dict[str, int]
    problem: str | None
    """What is wrong with what it asks for."""
    nodes: tuple[NodeExplained, ...]
    holds: tuple[HolderRecord, ...] = ()
    """What its containers hold, by its node's record."""


def explain(pod: PodFacts, cluster: Cluster, decider: Decider, now: float) -> Explanation:
    """What would be said of ``pod`` now, for each node that has a record, the best first."""
    verdicts = decider.explain(pod, sorted(cluster.records), now)
    nodes = (
        _node(name, cluster, score=one.score, text=one.text, never=one.never) for name, one in verdicts.items()
    )
    return Explanation(
        pod=f"{pod.namespace}/{pod.name}",
        uid=pod.uid,
        node=pod.node,
        locality=pod.locality,
        asks={} if isinstance(pod.ask, Nonsense) else dict(pod.ask.total()),
        problem=pod.ask.sentence if isinstance(pod.ask, Nonsense) else None,
        nodes=tuple(sorted(nodes, key=lambda one: (not one.fit, -one.score, one.node))),
        holds=tuple(_holds(pod, cluster.records.get(pod.node))),
    )


def _node(name: str, cluster: Cluster, *, score: int, text: str | None, never: bool) -> NodeExplained:
    standing, record = cluster.standing(name), cluster.records.get(name)
    terms = standing.terms if isinstance(standing, Standing) else None
    return NodeExplained(
        node=name,
        fit=text is None,
        score=score,
        text=text,
        never=never,
        policy=terms.rule.policy if terms else None,
        scope=terms.scope if terms else None,
        numbers=tuple(_numbers(record)),
        on_their_way=cluster.on_their_way(name),
        held_for=cluster.held_for(name),
    )


def _numbers(record: Record | Reason | None) -> Iterator[ZoneNumbers]:
    if isinstance(record, Record):
        for count in record.counts:
            yield ZoneNumbers(count.resource, count.numa_nodes, count.listed, count.free)


def _holds(pod: PodFacts, record: Record | Reason | None) -> Iterator[HolderRecord]:
    if isinstance(record, Record):
        yield from (one for one in record.holders if one.pod == pod.uid)
