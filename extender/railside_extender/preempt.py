"""Whom to evict on a node so that a pod fits its NUMA nodes, too: the scheduler thinks of totals alone.

It must not spare anybody whom the scheduler would evict, who knows why, nor touch pods of equal or higher
priority.
"""

from collections.abc import Callable, Iterable, Sequence

from railside_extender.pod_facts import PodFacts

Fits = Callable[[frozenset[str]], bool]
"""Whether the pod fits when these pods have gone."""


def victims(
    proposed: Sequence[str], pods: Iterable[PodFacts], priority: int, fits: Fits
) -> tuple[str, ...] | None:
    """Those ``proposed`` and as few more as make the pod fit; None where no eviction does.

    ``pods`` are on the node, ``priority`` is that of the pod that comes. The least important go first; who turns
    out not to be in the way stays.
    """
    known = {pod.uid: pod for pod in pods if not pod.over}
    # A UID that the scheduler does not find on the node makes the whole preemption fail.
    chosen = [uid for uid in proposed if uid in known]
    if fits(frozenset(chosen)):
        return tuple(chosen) or None
    others = sorted(
        (pod for pod in known.values() if pod.priority < priority and pod.resources and pod.uid not in chosen),
        key=lambda pod: (pod.priority, pod.namespace, pod.name),
    )
    added: list[str] = []
    for pod in others:
        added.append(pod.uid)
        if fits(frozenset((*chosen, *added))):
            return (*chosen, *_needed(chosen, added, fits))
    return None


def _needed(chosen: list[str], added: list[str], fits: Fits) -> list[str]:
    """Those of ``added`` without whom it does not fit, the most important spared first."""
    for uid in reversed(added[:-1]):
        rest = [one for one in added if one != uid]
        if fits(frozenset((*chosen, *rest))):
            added = rest
    return added
