"""Pods as the extender needs them, from the watch and from the scheduler's requests alike.

It must not keep more than decides something: a cluster has tens of thousands.
"""

from typing import Final

import msgspec

from railside_proto.names import LOCALITY
from railside_proto.podspec import Nonsense, PodAsk, PodSpec, pod_ask

_ENDED: Final = frozenset({"Succeeded", "Failed"})

TURNED_AWAY: Final = frozenset({"TopologyAffinityError", "UnexpectedAdmissionError"})
"""Reasons of pods that the kubelet did not admit though the scheduler had placed them."""


class _Annotations(msgspec.Struct, frozen=True):
    locality: str | None = msgspec.field(name=LOCALITY, default=None)


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    name: str = ""
    namespace: str = ""
    annotations: _Annotations | None = None


class _Spec(PodSpec, frozen=True, rename="camel"):
    node_name: str = ""
    priority: int = 0


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str = ""
    message: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    conditions: tuple[_Condition, ...] | None = None

    def condition(self, kind: str) -> _Condition | None:
        return next((one for one in self.conditions or () if one.type == kind), None)


class PodObject(msgspec.Struct, frozen=True):
    """The few fields of a Pod that are looked at."""

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class PodFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A pod at one moment."""

    uid: str
    namespace: str
    name: str
    node: str
    """Empty while it is bound to none."""
    ask: PodAsk | Nonsense
    locality: str | None
    over: bool
    """Whether it is called Succeeded or Failed."""
    turned_away: str = ""
    """The kubelet's reason, where it did not admit the pod."""
    unplaced: str = ""
    """What the scheduler said last of why it found no place; empty where it found one, or has said nothing."""
    priority: int = 0
    ready: bool = False

    @property
    def resources(self) -> frozenset[str]:
        """Extended resources that it names."""
        if isinstance(self.ask, Nonsense):
            return frozenset()
        return frozenset(name for one in self.ask.containers for name in (*one.zeros, *dict(one.counts)))


def pod_facts(pod: PodObject) -> PodFacts:
    """What counts of ``pod``."""
    metadata, status = pod.metadata, pod.status
    scheduled, ready = status.condition("PodScheduled"), status.condition("Ready")
    return PodFacts(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        node=pod.spec.node_name,
        ask=pod_ask(pod.spec),
        locality=metadata.annotations.locality if metadata.annotations else None,
        over=status.phase in _ENDED,
        turned_away=status.reason if status.reason in TURNED_AWAY else "",
        unplaced=scheduled.message if scheduled is not None and scheduled.status == "False" else "",
        priority=pod.spec.priority,
        ready=ready is not None and ready.status == "True",
    )
