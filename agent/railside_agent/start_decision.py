"""What happens at one start of a container: what is known of it, what it gets, and what is worth telling.

One pure step, so that a start from the field can be decided again at a desk. It must not touch files.
"""

import enum
import itertools
from collections.abc import Iterable
from typing import Self

import msgspec

from railside_agent.binding import Bound, Refused, bind, farther_than_needed
from railside_agent.container_start import ContainerStart, container_start, held_gpus
from railside_agent.health import sound_hca
from railside_agent.rules import Rules
from railside_agent.seats import Books, followed
from railside_agent.situation import Situation, believed, without_holders
from railside_agent.usage import usage
from railside_proto.machine import Hca, Machine, PathClass, path_class
from railside_proto.pool import Binding, Pool
from railside_proto.reasons import Code, Reason, reason


class StartDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one start."""

    start: ContainerStart
    outcome: Bound | Refused
    farther: Reason | None = None
    """What kept a GPU's HCA farther off than the node could have given."""

    @classmethod
    def refusal(cls, seats: tuple[str, ...], why: Reason) -> Self:
        """A start that came to nothing before anything could be decided."""
        return cls(start=ContainerStart(seats=seats), outcome=Refused(reason=why))

    def undoes(self, bindings: Iterable[Binding]) -> bool:
        """Whether this refusal takes back what the seats were bound to, being certainly this container's own.

        A sidecar with the same seats, or another pod that was dealt them first, may be running on it.
        """
        bound = next((one for one in bindings if set(one.seats) == set(self.start.seats)), None)
        return bound is not None and bound.pod == self.start.pod and len(self.start.containers) == 1

    def replaces(self, bindings: Iterable[Binding]) -> tuple[Binding, ...]:
        """Those of ``bindings`` that count no longer once this container has started."""
        return tuple(one for one in bindings if self.start.follows(one))


Enforced = dict[str, PathClass]
"""The farthest path that a pod's annotations tolerate, by the pod's UID: beyond that it does not start."""


class Call(enum.StrEnum):
    """What a decision answers."""

    START = "start"
    DEAL = "deal"
    REPLAY = "replay"
    """A start on nodes that the kubelet replays as they were dealt (``binding: allocate``)."""


def decide(
    call: Call,
    seats: tuple[str, ...],
    now: Situation,
    books: Books,
    pool: Pool,
    rules: Rules,
    *,
    enforced: Enforced,
) -> StartDecision:
    """The decision of whichever ``call``."""
    match call:
        case Call.START:
            return decide_start(seats, now, books, pool, rules, enforced=enforced)
        case Call.DEAL:
            return decide_deal(seats, now, books, pool, rules)
        case Call.REPLAY:
            return decide_replay(seats, now, books, pool, rules, enforced=enforced)


def decide_start(
    seats: tuple[str, ...], now: Situation, books: Books, pool: Pool, rules: Rules, *, enforced: Enforced
) -> StartDecision:
    """Bind ``seats`` in situation ``now``, the checkpoint of which was read for this start."""
    return _decided(seats, now, books, pool, rules, enforced=enforced)


def decide_deal(seats: tuple[str, ...], now: Situation, books: Books, pool: Pool, rules: Rules) -> StartDecision:
    """Bind ``seats`` when they are dealt: whose they are, and which GPUs go with them, nobody can know yet."""
    now = believed(now, books.checkpoint, books.listed, pool.resource)
    now = without_holders(now, seats, pool.resource)
    return _decided(seats, now, books, pool, rules, enforced={}, gpus_come=True)


def decide_replay(
    seats: tuple[str, ...], now: Situation, books: Books, pool: Pool, rules: Rules, *, enforced: Enforced
) -> StartDecision:
    """A start of a container that was dealt its HCAs for good: no other can take the place of one that is ill."""
    dealt = next((one for one in now.bindings if set(one.seats) == set(seats)), None)
    if dealt is None:
        detail = "nobody knows which those were"
        return StartDecision.refusal(seats, reason(Code.NODES_CHANGED, seat=", ".join(seats), detail=detail))
    why = _ill(dealt, now, pool)
    if why is not None:
        return StartDecision.refusal(seats, why)
    return _decided(seats, now, books, pool, rules, enforced=enforced, dealt=dealt)


def _decided(
    seats: tuple[str, ...],
    now: Situation,
    books: Books,
    pool: Pool,
    rules: Rules,
    *,
    enforced: Enforced,
    dealt: Binding | None = None,
    gpus_come: bool = False,
) -> StartDecision:
    now = believed(now, books.checkpoint, books.listed, pool.resource)
    start = container_start(seats, now, pool, rules)
    if dealt is None:
        # What init containers had, wider or narrower than this one, may not be what is nearest to its GPUs.
        still = tuple(one for one in now.bindings if not start.follows(one))
        now = msgspec.structs.replace(now, bindings=still)
    used = usage(now, followed(now, books, pool), pool, rules, hinted_before=books.hinted)
    gpus = now.machine.gpus if now.machine else ()
    outcome = bind(start, used, held_gpus(now, rules), gpus, dealt=dealt, gpus_come=gpus_come)
    if isinstance(outcome, Refused):
        return StartDecision(start=start, outcome=outcome)
    refusal = _too_far(outcome, start, enforced.get(start.pod or ""))
    if refusal is not None:
        return StartDecision(start=start, outcome=refusal)
    return StartDecision(start=start, outcome=outcome, farther=farther_than_needed(outcome, start, used))


def renewed(binding: Binding, machine: Machine) -> StartDecision | None:
    """What a container that is bound gets when its HCAs are called otherwise by now; None where one is gone."""
    here = {hca.address: hca for hca in machine.hcas}
    if not all(address in here for address in binding.hcas):
        return None
    hcas = tuple(here[address] for address in binding.hcas)
    served = {pair.gpu for pair in binding.pairs}
    gpus = tuple(gpu for gpu in machine.gpus if gpu.address in served)
    return StartDecision(
        start=ContainerStart(seats=binding.seats, pod=binding.pod, gpus=gpus),
        outcome=Bound(seats=binding.seats, hcas=hcas, pod=binding.pod, pairs=binding.pairs),
    )


def _too_far(bound: Bound, start: ContainerStart, tolerated: PathClass | None) -> Refused | None:
    """Why a pod that insists must not start: a GPU without an HCA near enough, or whose place nobody knows."""
    if tolerated is None:
        return None
    paths = {gpu.address: min(path_class(gpu, hca) for hca in bound.hcas).name for gpu in start.gpus}
    far: dict[str, str] = {gpu: path for gpu, path in paths.items() if PathClass[path] > tolerated}
    unknown = ((gpu, "a distance that nobody knows") for gpu in start.unplaced_gpus)
    worst = next(itertools.chain(far.items(), unknown), None)
    if worst is None:
        return None
    gpu, path = worst
    return Refused(reason=reason(Code.LOCALITY_NOT_MET, wanted=tolerated.name, gpu=gpu, path=path))


def _ill(dealt: Binding, now: Situation, pool: Pool) -> Reason | None:
    """What is wrong with the first HCA that cannot be used."""
    machine = now.machine or Machine()
    for seat, address in zip(dealt.seats, dealt.hcas, strict=True):
        found = sound_hca(address, machine, pool.selector.link_layer)
        if isinstance(found, Hca) and not pool.takes(found):
            found = reason(Code.HCA_GONE, address=address)
        if isinstance(found, Reason):
            return reason(Code.HCA_NOT_SOUND, seat=seat, device=address, detail=found.sentence)
    return None
