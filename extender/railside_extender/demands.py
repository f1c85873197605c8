"""What one pod wants of the cluster, beyond what it asks of a kubelet: nearness by annotation, and what bars it.

It must not know nodes.
"""

import msgspec

from railside_extender.pod_facts import PodFacts
from railside_proto.locality import PREFERRED
from railside_proto.podspec import Nonsense, PodAsk
from railside_proto.reasons import Code, Reason, reason


class Demand(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods of equal demands are the same to every node."""

    ask: PodAsk
    locality: str = PREFERRED


def demand(pod: PodFacts, *, conflicting: frozenset[str], default: str) -> Demand | Reason:
    """The demand of ``pod``, or why no node is fit for it."""
    if isinstance(pod.ask, Nonsense):
        return reason(Code.REQUEST_UNREADABLE, detail=pod.ask.sentence)
    barred = sorted(conflicting & pod.resources)
    if barred:
        return reason(Code.RESOURCES_CONFLICT, resources=" and ".join(barred))
    return Demand(pod.ask, pod.locality or default)
