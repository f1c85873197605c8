"""Whether a pod may go to a node: the verdict, and why not.

It answers for the one promise of the filter: who passes is not turned away by the kubelet for want of alignment.
It must not know how the node's state was learnt, nor which node is best.
"""

import functools

import msgspec

from railside_extender.admission import Release, Rule, widths
from railside_extender.crowd import Pod, everybody_is_safe, is_safe_among_any
from railside_extender.demand import Unit, units
from railside_extender.records import Terms
from railside_extender.room import Group, Room, Supply
from railside_proto.names import CPU_RESOURCE, MEMORY_RESOURCE
from railside_proto.podspec import Kind, PodAsk
from railside_proto.reasons import Code, Reason, reason
from railside_proto.record import TopologyPolicy


class Fit(msgspec.Struct, frozen=True):
    """The pod may go there."""


class Misfit(msgspec.Struct, frozen=True):
    """It may not."""

    reason: Reason
    """Its sentence names what is asked and nothing of the node: the scheduler groups nodes by equal texts."""
    never: bool = False
    """Whether it could not even if every other pod went: then none need to be evicted for it."""
    passing: bool = False
    """Whether only pods whose way is not known yet stand in the way."""


class Standing(msgspec.Struct, frozen=True, cache_hash=True):
    """All that a verdict about one node rests on. Nodes of equal standing are the same to every pod."""

    terms: Terms
    others: tuple[PodAsk, ...] = ()
    """Pods that are on their way there, in any order."""
    held_for: tuple[PodAsk, ...] = ()
    """Pods that may be: they were offered this node among others."""
    releases: tuple[Release, ...] = ()
    """What pods that hold something there would give back."""
    turned_away: frozenset[PodAsk] = frozenset()
    """What pods asked for that the kubelet did not admit, since the record is as it is."""


FIT = Fit()


def verdict(ask: PodAsk, standing: Standing, *, one_node: bool = False) -> Fit | Misfit:
    """Whether a pod that asks for ``ask`` may go where things stand so; ``one_node``: on one NUMA node alone."""
    if ask in standing.turned_away:
        return Misfit(reason(Code.TURNED_AWAY_BEFORE))
    terms = standing.terms
    rule = Rule(TopologyPolicy.SINGLE_NUMA_NODE, closest=terms.rule.closest) if one_node else terms.rule
    if not rule.is_strict:
        return FIT
    unknown = _not_told(ask, terms)
    if unknown is not None:
        return Misfit(unknown)
    newcomer = units(ask, terms.scope, terms.room.aligned)
    found = _verdict_now(newcomer, standing, rule)
    never = _why_never(newcomer, terms, rule) if isinstance(found, Misfit) else None
    return found if never is None else Misfit(never, never=True)


def _verdict_now(newcomer: Pod, standing: Standing, rule: Rule) -> Fit | Misfit:
    room, releases = standing.terms.room, standing.releases
    is_safe = everybody_is_safe if standing.terms.rule.is_strict else is_safe_among_any
    coming, may_come = _units(standing.others, standing.terms), _units(standing.held_for, standing.terms)
    if is_safe(room, rule, newcomer, (*coming, *may_come), releases):
        return FIT
    asked = spelt(newcomer)
    if not is_safe(room, rule, newcomer, (), releases):
        return Misfit(reason(Code.NOT_ALIGNED_NOW, asked=asked))
    only_held_for = is_safe(room, rule, newcomer, coming, releases)
    return Misfit(reason(Code.PODS_ON_THEIR_WAY, asked=asked), passing=only_held_for)


def _units(asks: tuple[PodAsk, ...], terms: Terms) -> tuple[Pod, ...]:
    return tuple(sorted((units(ask, terms.scope, terms.room.aligned) for ask in asks), key=hash))


def _why_never(newcomer: Pod, terms: Terms, rule: Rule) -> Reason | None:
    """Why no kubelet with such a list ever admits it, however empty the node is."""
    if everybody_is_safe(_emptied(terms.room), rule, newcomer, (), ()):
        return None
    differing = next((unit for unit in newcomer if len(widths(terms.room, unit)) > 1), None)
    if differing is not None:
        return reason(Code.WIDTHS_DIFFER, asked=_words(differing), policy=rule.policy)
    return reason(Code.NEVER_ALIGNED, asked=spelt(newcomer), policy=rule.policy)


@functools.lru_cache(maxsize=1 << 12)
def _emptied(room: Room) -> Room:
    """The room when all that is listed is well and in nobody's hands."""
    supplies = (
        (name, Supply(tuple(Group(group.mask, group.listed, group.listed) for group in supply.groups)))
        for name, supply in room.supplies
    )
    return Room(room.numa_nodes, tuple(supplies))


def _not_told(ask: PodAsk, terms: Terms) -> Reason | None:
    """What the kubelet would align, too, without anybody knowing how much of it is left."""
    if CPU_RESOURCE in terms.untold and any(one.cpus for one in ask.containers):
        return reason(Code.CPUS_NOT_TOLD)
    if CPU_RESOURCE in terms.room.aligned and any(one.cpus and one.kind is Kind.INIT for one in ask.containers):
        return reason(Code.INIT_CPUS)
    return reason(Code.MEMORY_NOT_TOLD) if MEMORY_RESOURCE in terms.untold and ask.guaranteed else None


def spelt(pod: Pod) -> str:
    """What a pod asks for, in words: ``4 nvidia.com/gpu and 4 vke.volcengine.com/infiniband-rdma``."""
    return ", then ".join(dict.fromkeys(_words(unit) for unit in pod))


def _words(unit: Unit) -> str:
    return " and ".join(f"{count} {name}" for name, count in unit.wants)
