"""Serves containers whose HCAs are chosen once, when the kubelet deals the seats: ``binding: allocate``.

For runtimes that refuse a folder of devices, such as CRI-O with privileged pods. The answer names device nodes,
which the kubelet replays for ever: so a start whose nodes have changed is refused. It must not swap HCAs.
"""

from typing import Final

from railside_agent.binding import Bound, Refused
from railside_agent.container_edits import ContainerEdits, allocation_key, plain_edits
from railside_agent.start_decision import StartDecision, kept_as_dealt
from railside_agent.starts import START_DEADLINE_SECONDS, ContainerStarts, text_of
from railside_proto.machine import Machine
from railside_proto.pool import Binding
from railside_proto.reasons import Code, Reason, reason

BIND_DEADLINE_SECONDS: Final = 2.0
"""Allocate holds up every pod of the node, but a refusal fails this one for good: a slow disk is waited for."""


class AllocateStarts(ContainerStarts):
    """Serves the containers of one pool, whose HCAs are chosen at Allocate."""

    async def deal(self, seats: tuple[str, ...]) -> ContainerEdits | Refused:
        """The nodes of the HCAs that ``seats`` get for good. A refusal fails the pod, which could never start."""
        self._note_in_flight(seats)
        try:
            outcome = await self._worker.run(lambda: self._bind_now(seats), BIND_DEADLINE_SECONDS)
        except (OSError, TimeoutError) as error:
            outcome = Refused(reason=_failed(seats, error))
        self._publish()
        return outcome

    async def start(self, seats: tuple[str, ...]) -> Bound | Refused:
        """Let a container start on what it was dealt, as long as that is still what its nodes mean."""
        await self._outlook.refresh()
        try:
            decision = await self._worker.run(lambda: self._checked(seats), START_DEADLINE_SECONDS)
        except (OSError, TimeoutError) as error:
            decision = StartDecision.refusal(seats, _failed(seats, error))
        self._told(decision)
        return decision.outcome

    def _bind_now(self, seats: tuple[str, ...]) -> ContainerEdits | Refused:
        # Other folders stay: those of init and main containers share seats, and each is replayed as it was dealt.
        decision, machine = self._outlook.decide_deal(seats, self._directories.bindings())
        match decision.outcome:
            case Refused() as refused:
                return refused
            case Bound() as bound:
                self._lay_out(decision, bound, machine)
                return plain_edits(self._place.pool, bound, machine, self._place.style)

    def _checked(self, seats: tuple[str, ...]) -> StartDecision:
        key = allocation_key(self._place.pool, seats)
        decided, machine = self._outlook.decide(seats, self._directories.bindings())
        decision = kept_as_dealt(decided, self._dealt(seats), machine, self._place.pool)
        match decision.outcome:
            case Bound() as bound if not (
                self._directories.is_true(key, machine) and self._outlook.is_present(bound.hcas)
            ):
                detail = "its nodes are not those it was given"
                return StartDecision.refusal(
                    seats, reason(Code.NODES_CHANGED, seat=", ".join(seats), detail=detail)
                )
            case Bound() | Refused():
                return decision

    def _renew_one(self, binding: Binding, machine: Machine) -> None:
        """Nothing: the kubelet replays the nodes that were dealt, so a folder with others would be a lie."""

    def _dealt(self, seats: tuple[str, ...]) -> Binding | None:
        return next((one for one in self._directories.bindings() if set(one.seats) == set(seats)), None)


def _failed(seats: tuple[str, ...], error: Exception) -> Reason:
    return reason(Code.DEVICE_DIRECTORY_FAILED, device=", ".join(seats), detail=text_of(error))
