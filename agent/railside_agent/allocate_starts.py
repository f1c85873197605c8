"""Serves containers whose HCAs are chosen once, when the kubelet deals the seats: ``binding: allocate``.

For runtimes that refuse a folder of devices, such as CRI-O with privileged pods. The answer names device nodes,
which the kubelet replays for ever: so a start whose nodes have changed is refused. It must not swap HCAs.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from railside_agent.allocations import Allocations
from railside_agent.binding import Bound, Refused
from railside_agent.container_edits import ContainerEdits, plain_edits
from railside_agent.device_dirs import DeviceDirectories
from railside_agent.start_decision import Call, StartDecision
from railside_agent.starts import START_DEADLINE_SECONDS, Outlook, directory_failed
from railside_proto.reasons import Code, reason

REFRESH_SECONDS: Final = 0.05

BIND_DEADLINE_SECONDS: Final = 2.0
"""Allocate holds up every pod of the node, but a refusal fails this one for good: a slow disk is waited for."""


class AllocateStarts:
    """Serves the containers of one pool, whose HCAs are chosen at Allocate."""

    def __init__(
        self, allocations: Allocations, *, outlook: Outlook, told: Callable[[StartDecision], None]
    ) -> None:
        """Decide on ``outlook``, and carry it out in ``allocations``; what each start comes to is ``told``."""
        self._allocations = allocations
        self._outlook = outlook
        self._told = told

    async def deal(self, seats: tuple[str, ...]) -> ContainerEdits | Refused:
        """The nodes of the HCAs that ``seats`` get for good. A refusal fails the pod, which could never start."""
        deal = self._allocations.note_deal(seats)
        with contextlib.suppress(TimeoutError):
            # What is decided now is decided for good: on what the kubelet wrote last, if the disk is quick.
            async with asyncio.timeout(REFRESH_SECONDS):
                await self._outlook.refresh()
        try:
            answer = await self._allocations.run(lambda disk: self._bind_now(disk, seats), BIND_DEADLINE_SECONDS)
        except (OSError, TimeoutError) as error:
            answer = Refused(reason=directory_failed(seats, error))
        if isinstance(answer, Refused):
            # The pod fails, and the kubelet has the seats again.
            self._allocations.forget_deal(deal)
        return answer

    async def start(self, seats: tuple[str, ...]) -> Bound | Refused:
        """Let a container start on what it was dealt, as long as that is still what its nodes mean."""
        await self._outlook.refresh()
        try:
            decision = await self._allocations.run(lambda disk: self._checked(disk, seats), START_DEADLINE_SECONDS)
        except (OSError, TimeoutError) as error:
            decision = StartDecision.refusal(seats, directory_failed(seats, error))
        self._told(decision)
        return decision.outcome

    # From here on in the worker's thread

    def _bind_now(self, disk: DeviceDirectories, seats: tuple[str, ...]) -> ContainerEdits | Refused:
        # Other folders stay: those of init and main containers share seats, and each is replayed as it was dealt.
        decision, machine = self._outlook.decide(Call.DEAL, seats, disk.bindings())
        match decision.outcome:
            case Refused() as refused:
                return refused
            case Bound() as bound:
                self._allocations.lay_out(disk, bound, decision.start, machine)
                return plain_edits(self._allocations.pool, bound, machine, self._allocations.style)

    def _checked(self, disk: DeviceDirectories, seats: tuple[str, ...]) -> StartDecision:
        decision, machine = self._outlook.decide(Call.REPLAY, seats, disk.bindings())
        match decision.outcome:
            case Bound() as bound if not (
                disk.is_true(self._allocations.key(seats), machine) and self._outlook.is_present(bound.hcas)
            ):
                detail = "its nodes are not those it was given"
                return StartDecision.refusal(
                    seats, reason(Code.NODES_CHANGED, seat=", ".join(seats), detail=detail)
                )
            case Bound() as bound:
                # By now it is known whose it is, and which GPUs go with it.
                with contextlib.suppress(OSError):
                    self._allocations.lay_out(disk, bound, decision.start, machine)
                return decision
            case Refused():
                return decision
