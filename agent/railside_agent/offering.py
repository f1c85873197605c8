"""Keeps the offer in step with the machine and its holders: recalled at first, then with every look.

It must not decide what is offered: the core does.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Never, TypeVar

from structlog.typing import FilteringBoundLogger

from railside_agent.checkpoint_watch import CheckpointWatch
from railside_agent.holders import HeldId, held_ids
from railside_agent.inventory import Inventory, Look
from railside_agent.seat_memory import SeatMemory
from railside_agent.seats import Offer, offer, recalled
from railside_agent.starts import ContainerStarts
from railside_agent.status import nothing_offered
from railside_proto.machine import Machine
from railside_proto.pool import Container, Pool
from railside_proto.reasons import Reason
from railside_runtime.cell import Cell
from railside_runtime.waiting import first_of
from railside_runtime.worker import Worker

DISK_DEADLINE_SECONDS: Final = 2.0
"""The disk may hang; the kubelet gives a list 1.2 s from its start and will not wait for it."""

RETRY_SECONDS: Final = 5.0

T = TypeVar("T")


class Offering:
    """The offer of one pool."""

    def __init__(
        self,
        pool: Pool,
        *,
        inventory: Inventory,
        checkpoint: CheckpointWatch,
        starts: ContainerStarts,
        memory: SeatMemory,
        offer: Cell[Offer],
        log: FilteringBoundLogger,
    ) -> None:
        """Write to ``offer``, as its only writer."""
        self._pool = pool
        self._inventory = inventory
        self._checkpoint = checkpoint
        self._starts = starts
        self._memory = memory
        self._offer = offer
        self._log = log
        self._worker = Worker("memory")
        self._told: tuple[Machine, int] | None = None

    async def run(self) -> Never:
        """Offer what was remembered at once, and what is there as soon as it has been looked at."""
        held = self._held(await self._checkpoint.read_patiently()) or ()
        remembered = await self._patiently(self._memory.recall, "the remembered seats") or ()
        before = recalled(remembered, await self._containers(), held)
        self._offer.set(offer(None, self._pool, before, held))
        while True:
            latest, checkpoint = self._inventory.latest.value, self._checkpoint.latest.value
            now_held = self._held(checkpoint)
            held = held if now_held is None else now_held
            done = True
            if latest is not None:
                done = await self._renew(latest, offer(latest.machine, self._pool, self._offer.value, held))
            await self._until_newer(latest, checkpoint, None if done else RETRY_SECONDS)

    def _held(self, checkpoint: bytes | None) -> tuple[HeldId, ...] | None:
        """What containers hold; None where that is unknown. Without a checkpoint nothing was ever dealt."""
        return held_ids(checkpoint, self._pool.resource) if checkpoint else None if checkpoint is None else ()

    async def _patiently(self, read: Callable[[], T], what: str) -> T:
        """What ``read`` gives. A disk that hangs is waited for: ids that pods hold must not leave the list."""
        while True:
            try:
                return await self._worker.run(read, DISK_DEADLINE_SECONDS)
            except TimeoutError:
                self._log.error("the disk hangs, and nothing is offered before it answers", waiting_for=what)
                await asyncio.sleep(RETRY_SECONDS)

    async def _containers(self) -> tuple[Container, ...]:
        try:
            return await self._starts.containers()
        except (OSError, TimeoutError) as error:
            self._log.error("the bound containers could not be read", detail=str(error))
            return ()

    async def _until_newer(self, seen: Look | None, read: bytes | None, at_most_seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most_seconds):
                await first_of(
                    self._inventory.latest.until(lambda latest: latest is not seen),
                    self._checkpoint.latest.until(lambda content: content is not read),
                )

    async def _renew(self, latest: Look, seats: Offer) -> bool:
        """Put what is no longer true out of the way, then remember ``seats`` and offer them, in this order.

        Whether all of that could be done: it is tried again where not.
        """
        withdrawn = await self._starts.withdraw_untrue(latest.machine)
        self._tell(latest.machine, seats)
        remembered = False
        try:
            remembered = await self._worker.run(lambda: self._memory.remember(seats), DISK_DEADLINE_SECONDS)
        except TimeoutError:
            self._log.error("the seats could not be remembered", detail="the disk hangs")
        self._offer.set(seats)
        return withdrawn and remembered

    def _tell(self, machine: Machine, seats: Offer) -> None:
        """Log what is new: a look that finds nothing new has nothing to say."""
        healthy = sum(seat.illness is None for seat in seats)
        if self._told == (machine, healthy):
            return
        before = self._told[0].excluded if self._told else ()
        self._told = (machine, healthy)
        hcas, gpus = len(machine.hcas), len(machine.gpus)
        self._log.info("machine", hcas=hcas, gpus=gpus, seats=len(seats), healthy=healthy)
        for one in machine.excluded:
            if one not in before:
                self._log.info("device left out", device=one.name, **_because(one.reason))
        nothing = nothing_offered(machine)
        if nothing is not None:
            self._log.warning("nothing is offered", **_because(nothing))


def _because(why: Reason) -> dict[str, str]:
    return {"reason": why.code, "why": why.sentence, "remedy": why.remedy}
