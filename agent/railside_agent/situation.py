"""Everything that one decision about a pool rests on, at one moment. It must not decide anything."""

from collections.abc import Mapping

import msgspec

from railside_agent.holders import Checkpoint, Entry, HeldId
from railside_agent.seat_names import node_of, zone_of
from railside_proto.machine import Machine, PciAddress
from railside_proto.pool import Binding, Mode
from railside_proto.record import TopologyPolicy


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What is known now."""

    machine: Machine | None = None
    """None before the first look."""
    checkpoint: Checkpoint | None = Checkpoint()
    """None where the kubelet's file makes no sense; see ``believed``."""
    doubtful: bool = False
    """Whether the checkpoint is an old one or a guess: nothing that was listed may go then."""
    bindings: tuple[Binding, ...] = ()
    """What is laid out for containers."""
    mode: Mode | None = Mode.IB_SHARED
    """None where nobody chose one: then nothing new is offered."""
    ended: frozenset[str] = frozenset()
    """UIDs of pods that are known to be over, though the kubelet's checkpoint may still name them."""
    alive: frozenset[str] = frozenset()
    """UIDs of pods with bindings that the API server says live, whatever the kubelet's checkpoint names: a kubelet
    that lost it leaves running containers alone, and writes one without them."""
    in_flight: frozenset[str] = frozenset()
    """Ids of calls that the kubelet has under way, or that its checkpoint cannot show yet."""
    claimed_gpus: frozenset[PciAddress] = frozenset()
    """GPUs that containers have by resource claims."""
    policy: TopologyPolicy | None = None
    """The kubelet's topology manager policy; None where it is not known."""
    heard_since: float | None = None
    """When the kubelet took the present registration."""
    now: float = 0.0
    """Seconds of a clock that never goes back."""

    @property
    def living(self) -> tuple[Entry, ...]:
        """What the checkpoint tells of containers, those of pods that are known to be over left out."""
        entries = self.checkpoint.entries if self.checkpoint else ()
        return tuple(one for one in entries if one.pod not in self.ended)


class Listed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An id as it was last listed."""

    id: str
    numa_nodes: tuple[int, ...] = ()
    held: bool = False
    unhealthy_since: float | None = None


def believed(now: Situation, last_good: Checkpoint | None, listed: tuple[Listed, ...], resource: str) -> Situation:
    """``now`` with a checkpoint in any case: the ``last_good`` one, and what bindings and list tell beyond it."""
    if now.checkpoint is not None:
        return now
    last = last_good or Checkpoint()
    told = {name for entry in last.of(resource) for name in entry.names}
    bound = [one for one in now.bindings if not told.issuperset(one.seats)]
    told |= {seat for one in bound for seat in one.seats}
    shown = {one.id: one.numa_nodes for one in listed}
    held = (HeldId(id=one.id, numa_nodes=one.numa_nodes) for one in listed if one.held and one.id not in told)
    guess = (
        *(_entry(one.pod, tuple(_recorded(seat, shown) for seat in one.seats), resource) for one in bound),
        *(_entry(None, (one,), resource) for one in held),
    )
    checkpoint = msgspec.structs.replace(last, entries=(*last.entries, *guess))
    return msgspec.structs.replace(now, checkpoint=checkpoint, doubtful=True)


def without_holders(now: Situation, seats: tuple[str, ...], resource: str) -> Situation:
    """``now`` at the moment when ``seats`` are dealt: whoever the checkpoint still names for them has ended.

    Not so who has not started yet: an init container hands its seats on to the others of its pod, which are dealt
    theirs one after the other before any starts. The kubelet writes its checkpoint behind each of them.
    """
    checkpoint = now.checkpoint or Checkpoint()
    entries = tuple(
        one for one in checkpoint.entries if one.resource != resource or set(seats).isdisjoint(one.names)
    )
    bindings = tuple(one if one.pod else _handed_on(one, seats) for one in now.bindings)
    return msgspec.structs.replace(
        now, checkpoint=msgspec.structs.replace(checkpoint, entries=entries), bindings=bindings
    )


def _handed_on(binding: Binding, seats: tuple[str, ...]) -> Binding:
    """What of it is dealt again with ``seats``; the whole of it if nothing is."""
    again = [index for index, seat in enumerate(binding.seats) if seat in seats]
    if not again:
        return binding
    return msgspec.structs.replace(
        binding,
        seats=tuple(binding.seats[index] for index in again),
        hcas=tuple(binding.hcas[index] for index in again),
        guids=tuple(binding.guids[index] for index in again) if binding.guids else (),
    )


def _recorded(seat: str, shown: Mapping[str, tuple[int, ...]]) -> HeldId:
    """A seat where it was last shown to be, else where its name says."""
    return HeldId(id=seat, numa_nodes=shown.get(seat) or node_of(zone_of(seat)))


def _entry(pod: str | None, ids: tuple[HeldId, ...], resource: str) -> Entry:
    return Entry(pod=pod or "", container="", resource=resource, ids=ids)
