"""What happens to a container on its way: it is dealt seats, and at each start it is bound and laid out.

It orders the steps and keeps the deadlines. It must not decide what they mean: the core does.
"""

import asyncio
from typing import Final

from structlog.typing import FilteringBoundLogger

from railside_agent.binding import Bound, Refused, bind
from railside_agent.container_edits import ContainerEdits, allocation_key, contents, edits
from railside_agent.device_dirs import DeviceDirectories
from railside_agent.inventory import Inventory, LookError
from railside_agent.seats import Offer
from railside_proto.machine import Machine
from railside_proto.pool import Container, Pool
from railside_proto.reasons import Code, Reason, reason
from railside_runtime.cell import Cell

LAY_OUT_DEADLINE_SECONDS: Final = 10.0
"""Below the 30 s that the kubelet gives a PreStartContainer; files on a tmpfs take milliseconds."""


class ContainerStarts:
    """Serves the containers of one pool."""

    def __init__(
        self,
        pool: Pool,
        *,
        inventory: Inventory,
        offer: Cell[Offer],
        directories: DeviceDirectories,
        host_root: str,
        log: FilteringBoundLogger,
    ) -> None:
        """Tell the kubelet paths below ``host_root``."""
        self._pool = pool
        self._inventory = inventory
        self._offer = offer
        self._directories = directories
        self._host_root = host_root
        self._log = log

    async def deal(self, seats: tuple[str, ...]) -> ContainerEdits:
        """What the kubelet is told for a container that it gives ``seats``, once; nothing is bound yet."""
        machine = self._inventory.machine.value
        key = allocation_key(self._pool, seats)
        try:
            async with asyncio.timeout(LAY_OUT_DEADLINE_SECONDS):
                await asyncio.to_thread(self._directories.prepare, key, seats)
        except (OSError, TimeoutError) as error:
            # An error here would fail the pod for good; the start is refused instead, and tried again.
            self._log.error("the container's folder could not be made", seats=seats, detail=str(error))
        topology = machine is not None and machine.virtual_topology
        return edits(self._pool, seats, self._host_root, virtual_topology=topology)

    async def start(self, seats: tuple[str, ...]) -> Bound | Refused:
        """Bind ``seats`` as the machine is now, and lay out what the container will find."""
        outcome = await self._start(seats)
        if isinstance(outcome, Refused):
            self._log.warning(
                "a container must wait", seats=seats, reason=outcome.reason.code, why=outcome.reason.sentence
            )
        else:
            self._log.info("container bound", seats=seats, hcas=[hca.name for hca in outcome.hcas])
        return outcome

    async def _start(self, seats: tuple[str, ...]) -> Bound | Refused:
        try:
            machine = await self._inventory.look()
        except LookError as error:
            return Refused(reason=reason(Code.LOOK_FAILED, detail=str(error)))
        outcome = bind(seats, self._offer.value, machine)
        if isinstance(outcome, Refused):
            return outcome
        problem = await self._lay_out(outcome, machine)
        return Refused(reason=problem) if problem else outcome

    async def _lay_out(self, bound: Bound, machine: Machine) -> Reason | None:
        key = allocation_key(self._pool, bound.seats)
        try:
            async with asyncio.timeout(LAY_OUT_DEADLINE_SECONDS):
                await asyncio.to_thread(self._directories.lay_out, key, contents(bound, machine))
        except (OSError, TimeoutError) as error:
            devices = ", ".join(hca.name for hca in bound.hcas)
            return reason(Code.DEVICE_DIRECTORY_FAILED, device=devices, detail=str(error))
        return None

    async def containers(self) -> tuple[Container, ...]:
        """Every container that is bound, with its seats and HCAs."""
        return await asyncio.to_thread(lambda: tuple(self._directories.containers()))
