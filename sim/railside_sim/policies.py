"""How the hints of several resources become one, and whether the pod is admitted, by the node's policy.

It answers for the merge alone (pkg/kubelet/cm/topologymanager: policy.go and the policies beside it, without
policy options). It must not know where hints come from.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Literal

import msgspec

from railside_sim.hints import Hint, Mask

Policy = Literal["none", "best-effort", "restricted", "single-numa-node"]

Opinion = Sequence[Hint] | None
"""What one resource has to say: None is no opinion, and an empty one is that no mask can serve."""

_NO_OPINION = (Hint(mask=None, preferred=True),)
_IMPOSSIBLE = (Hint(mask=None, preferred=False),)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether to admit, and the nodes to take devices from first; None for any."""

    admitted: bool
    affinity: Mask | None


def merge(policy: Policy, opinions: Iterable[Opinion], numa_nodes: Sequence[int]) -> Verdict:
    """One hint of all, by the policy."""
    lists = [_heard(opinion) for opinion in opinions] or [_NO_OPINION]
    match policy:
        case "none":
            return Verdict(admitted=True, affinity=None)
        case "best-effort":
            return Verdict(admitted=True, affinity=_best(lists, numa_nodes).mask)
        case "restricted":
            best = _best(lists, numa_nodes)
            return Verdict(admitted=best.preferred, affinity=best.mask)
        case "single-numa-node":
            best = _best([_of_one_node(hints) for hints in lists], numa_nodes)
            whole = best.mask == frozenset(numa_nodes)
            return Verdict(admitted=best.preferred, affinity=None if whole else best.mask)


def _heard(opinion: Opinion) -> Sequence[Hint]:
    if opinion is None:
        return _NO_OPINION
    return opinion or _IMPOSSIBLE


def _of_one_node(hints: Sequence[Hint]) -> Sequence[Hint]:
    return [hint for hint in hints if hint.preferred and (hint.mask is None or len(hint.mask) == 1)]


def _best(lists: Sequence[Sequence[Hint]], numa_nodes: Sequence[int]) -> Hint:
    """The best of all combinations with one hint of each resource; not preferred where there is none."""
    every = frozenset(numa_nodes)
    widest_need = max(map(_narrowest, lists))
    best: Hint | None = None
    for combination in product(*lists):
        candidate = _joined(combination, every)
        if candidate.mask and (best is None or _better(candidate, best, widest_need)):
            best = candidate
    return best or Hint(mask=every, preferred=False)


def _joined(combination: Sequence[Hint], every: Mask) -> Hint:
    """What the masks have in common; preferred only if each is and all are the same."""
    own = [hint.mask for hint in combination if hint.mask is not None]
    preferred = len(set(own)) <= 1 and all(hint.preferred for hint in combination)
    return Hint(mask=every.intersection(*own), preferred=preferred)


def _narrowest(hints: Sequence[Hint]) -> int:
    return min((len(hint.mask) for hint in hints if hint.mask is not None), default=0)


def _better(candidate: Hint, best: Hint, widest_need: int) -> bool:
    """Preferred first, then the narrowest; of those not preferred, as near below ``widest_need`` as can be."""
    if candidate.preferred != best.preferred:
        return candidate.preferred
    old, new = len(best.mask or ()), len(candidate.mask or ())
    if not best.preferred and old <= widest_need and old != new:
        return old < new <= widest_need
    return _rank(candidate) < _rank(best)


def _rank(hint: Hint) -> tuple[int, int]:
    """Fewest nodes first, then the lowest."""
    mask = hint.mask or frozenset()
    return len(mask), sum(1 << node for node in mask)
