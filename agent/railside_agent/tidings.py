"""What is worth telling: what a start came to, who is hurt by an HCA that falls ill, what the node offers.

Each is a value that the shell logs and tells as an Event. It must not tell anything itself, and must not repeat
what it told before: it compares.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from railside_agent.binding import Bound, Refused
from railside_agent.mode import ModeDecision
from railside_agent.pods import Pods
from railside_agent.seats import Offer
from railside_agent.start_decision import StartDecision
from railside_agent.status import nothing_found
from railside_proto.locality import LOCALITIES
from railside_proto.machine import Machine, PciAddress
from railside_proto.names import LOCALITY
from railside_proto.pool import Binding
from railside_proto.reasons import Code, Reason, reason


class Tiding(msgspec.Struct, frozen=True, kw_only=True):
    """Something to tell."""

    what: str
    level: Literal["info", "warning"] = "info"
    reason: Reason | None = None
    pod: str | None = None
    """UID of the pod that it is about; None for the node."""
    event: bool = False
    """Whether it is also told as an Event, on the pod or on the node."""
    facts: dict[str, object] = {}


def of_start(decision: StartDecision, pods: Pods, conflicting: Iterable[str]) -> Iterator[Tiding]:
    """What a container's start came to."""
    pod = decision.start.pod
    match decision.outcome:
        case Refused(reason=why):
            facts: dict[str, object] = {"seats": decision.start.seats}
            yield Tiding(
                what="a container must wait", level="warning", reason=why, pod=pod, event=True, facts=facts
            )
        case Bound() as bound:
            yield Tiding(what="container bound", pod=pod, facts=_given(bound))
            if decision.farther is not None:
                yield Tiding(
                    what="an HCA is farther off than needed", reason=decision.farther, pod=pod, event=True
                )
            yield from _conflicts(pod, pods, conflicting)
            yield from _unknown_wishes(pod, pods)


def of_restart(binding: Binding) -> Tiding:
    """A container runs on an HCA that has changed under it."""
    why = reason(Code.RESTART_NEEDED, address=", ".join(dict.fromkeys(binding.hcas)))
    facts: dict[str, object] = {"seats": binding.seats, "hcas": binding.hcas}
    return Tiding(
        what="a container must be restarted", level="warning", reason=why, pod=binding.pod, event=True, facts=facts
    )


def of_deal(seats: Iterable[str], held: Iterable[Binding], pods: Pods) -> Iterator[Tiding]:
    """Seats that the kubelet deals though a pod that is known to live has them.

    Init and main containers of one pod are dealt the same seats one after the other, before either starts; what is
    bound belongs to a pod that has started.
    """
    dealt = set(seats)
    for binding in held:
        if binding.pod is not None and pods.ended(binding.pod) is False and not dealt.isdisjoint(binding.seats):
            seat = ", ".join(sorted(dealt & set(binding.seats)))
            why = reason(Code.DEALT_WHILE_HELD, seat=seat, pod=binding.pod)
            yield Tiding(what="a seat was dealt while it is held", level="warning", reason=why, pod=binding.pod)


def of_health(before: Offer, after: Offer) -> Iterator[Tiding]:
    """HCAs that fell ill or are well again, each with a word to the pods that have them."""
    then, now = _illnesses(before), _illnesses(after)
    holders = _holders(after)
    for address in sorted(then.keys() | now.keys()):
        was, is_now = then.get(address), now.get(address)
        if is_now is not None and (was is None or was.code is not is_now.code):
            yield from _fallen(address, is_now, holders.get(address, ()))
        elif was is not None and is_now is None and address in now:
            yield Tiding(what="an HCA is sound again", facts={"hca": address})


def of_machine(before: Machine | None, after: Machine) -> Iterator[Tiding]:
    """How much there is, and each device that is left out; ``before`` is None at the first look."""
    then = before or Machine()
    if len(then.hcas) != len(after.hcas) or len(then.gpus) != len(after.gpus):
        yield Tiding(what="machine", facts={"hcas": len(after.hcas), "gpus": len(after.gpus)})
    for one in after.excluded:
        if one not in then.excluded:
            yield Tiding(what="device left out", reason=one.reason, facts={"device": one.name})
    missing = nothing_found(after)
    if missing is not None and (before is None or missing != nothing_found(before)):
        yield Tiding(what="nothing is offered", level="warning", reason=missing)


def of_cross_check(why: Reason) -> Tiding:
    """The kubelet contradicts itself."""
    return Tiding(what="the kubelet's accounts differ", level="warning", reason=why)


def of_lacks(before: Iterable[Reason], after: Iterable[Reason]) -> Iterator[Tiding]:
    """What a kubelet turned out to lack; that it lacks it still is no news."""
    known = set(before)
    for why in after:
        if why not in known:
            yield Tiding(what="the kubelet lacks something", reason=why)


def of_mode(before: ModeDecision | None, after: ModeDecision) -> Iterator[Tiding]:
    """The mode in force, where that or its reason is news."""
    if before != after:
        # At its start the agent has not asked yet: what is still missing then is no news for anybody.
        usual = after.reason is None or (before is None and after.reason.code is Code.NODE_NOT_SEEN)
        level: Literal["info", "warning"] = "info" if usual else "warning"
        facts: dict[str, object] = {"mode": after.mode, "source": after.source}
        asked = after.reason is not None and after.reason.code is Code.MODE_LABEL_UNKNOWN
        yield Tiding(what="mode", level=level, reason=after.reason, event=asked, facts=facts)


def _given(bound: Bound) -> dict[str, object]:
    return {
        "seats": bound.seats,
        "hcas": [hca.name for hca in bound.hcas],
        "paths": [f"{pair.gpu} {pair.path.name} {pair.hca}" for pair in bound.pairs],
    }


def _conflicts(pod: str | None, pods: Pods, conflicting: Iterable[str]) -> Iterator[Tiding]:
    known = pods.by_uid.get(pod or "")
    asked = {name for container in known.containers for name in container.resources} if known else set()
    both = sorted(asked & set(conflicting))
    if both:
        why = reason(Code.RESOURCES_CONFLICT, resources=" and ".join(both))
        yield Tiding(what="a pod uses what does not go together", level="warning", reason=why, pod=pod, event=True)


def _unknown_wishes(pod: str | None, pods: Pods) -> Iterator[Tiding]:
    known = pods.by_uid.get(pod or "")
    if known is not None and known.locality is not None and known.locality not in LOCALITIES:
        allowed = ", ".join(LOCALITIES)
        why = reason(Code.LOCALITY_UNKNOWN, annotation=LOCALITY, value=known.locality, allowed=allowed)
        yield Tiding(what="a pod's wish is not known", level="warning", reason=why, pod=pod, event=True)


def _fallen(address: PciAddress, why: Reason, pods: Iterable[str]) -> Iterator[Tiding]:
    held_by = sorted(pods)
    facts: dict[str, object] = {"hca": address, "pods": held_by}
    if why.code is not Code.RECOVERING:
        yield Tiding(what="an HCA is not sound", level="warning", reason=why, event=True, facts=facts)
        for pod in held_by:
            yield Tiding(
                what="a pod's HCA is not sound", level="warning", reason=why, pod=pod, event=True, facts=facts
            )


def _illnesses(offer: Offer) -> dict[PciAddress, Reason | None]:
    """By HCA; one that is gone is known by the seats that mean it."""
    here = {one.hca.address: one.unsound for one in (offer.usage.hcas if offer.usage else ())}
    return {one.hca: one.reason for one in offer.seats if one.hca} | here


def _holders(offer: Offer) -> dict[PciAddress, set[str]]:
    holders: dict[PciAddress, set[str]] = {}
    for binding in offer.usage.live if offer.usage else ():
        for address in binding.hcas if binding.pod else ():
            holders.setdefault(address, set()).add(binding.pod or "")
    return holders
