"""What happens to a container on its way: it is dealt seats, and at each start it is bound and laid out.

It orders the steps and keeps the deadlines. It must not decide what they mean: the core does.
"""

from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

from railside_agent.binding import Bound, Refused, bind
from railside_agent.container_edits import ContainerEdits, allocation_key, contents, edits
from railside_agent.device_dirs import DeviceDirectories
from railside_agent.inventory import Inventory, LookError
from railside_agent.seats import Offer
from railside_agent.sysfs import has_virtual_topology
from railside_proto.machine import Machine
from railside_proto.pool import Container, Pool
from railside_proto.reasons import Code, Reason, reason
from railside_runtime.cell import Cell
from railside_runtime.worker import Worker

DEAL_DEADLINE_SECONDS: Final = 0.05
"""Allocate holds up every pod of the node."""

LAY_OUT_DEADLINE_SECONDS: Final = 10.0
"""With the look before it well below the 30 s that the kubelet gives a PreStartContainer."""


class ContainerStarts:
    """Serves the containers of one pool."""

    def __init__(
        self,
        pool: Pool,
        *,
        inventory: Inventory,
        offer: Cell[Offer],
        directories: DeviceDirectories,
        root: Path,
        host_root: str,
        log: FilteringBoundLogger,
    ) -> None:
        """Look below ``root``, and tell the kubelet paths below ``host_root``, which is the same tree."""
        self._pool = pool
        self._inventory = inventory
        self._offer = offer
        self._directories = directories
        self._root = root
        self._host_root = host_root
        self._log = log
        # One after the other: what was asked earlier must not undo what was asked later.
        self._worker = Worker("directories")

    async def deal(self, seats: tuple[str, ...]) -> ContainerEdits:
        """What the kubelet is told for a container that it gives ``seats``, once; nothing is bound yet."""
        key = allocation_key(self._pool, seats)
        latest = self._inventory.latest.value
        topology = latest is not None and latest.machine.virtual_topology
        try:
            topology = await self._worker.run(lambda: self._prepare(key, seats), DEAL_DEADLINE_SECONDS)
        except (OSError, TimeoutError) as error:
            # An error here would fail the pod for good. Its start makes the folder, or is refused and tried again.
            self._log.warning("the container's folder could not be made yet", seats=seats, detail=_text(error))
        return edits(self._pool, seats, self._host_root, virtual_topology=topology)

    async def start(self, seats: tuple[str, ...]) -> Bound | Refused:
        """Bind ``seats`` as the machine is now, and lay out what the container will find; nothing if refused."""
        outcome = await self._start(seats)
        if isinstance(outcome, Refused):
            why = outcome.reason
            self._log.warning("a container must wait", seats=seats, reason=why.code, why=why.sentence)
            await self._withdraw(allocation_key(self._pool, seats))
        else:
            self._log.info("container bound", seats=seats, hcas=[hca.name for hca in outcome.hcas])
        return outcome

    async def withdraw_untrue(self, machine: Machine) -> bool:
        """Take away what was laid out for HCAs that have gone or are called or numbered otherwise by now.

        False where that could not be done yet.
        """
        try:
            withdrawn = await self._worker.run(
                lambda: self._directories.withdraw_untrue(machine), LAY_OUT_DEADLINE_SECONDS
            )
        except (OSError, TimeoutError) as error:
            self._log.error("what is no longer true could not be withdrawn", detail=_text(error))
            return False
        for container in withdrawn:
            self._log.warning(
                "a container holds an HCA that has changed and must be restarted",
                seats=container.seats,
                hcas=container.hcas,
            )
        return True

    async def containers(self) -> tuple[Container, ...]:
        """Every container that is bound, with its seats and HCAs. Raises TimeoutError."""
        return await self._worker.run(lambda: tuple(self._directories.containers()), LAY_OUT_DEADLINE_SECONDS)

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
        laid_out = contents(bound, machine)
        try:
            await self._worker.run(lambda: self._directories.lay_out(key, laid_out), LAY_OUT_DEADLINE_SECONDS)
        except (OSError, TimeoutError) as error:
            devices = ", ".join(hca.name for hca in bound.hcas)
            return reason(Code.DEVICE_DIRECTORY_FAILED, device=devices, detail=_text(error))
        return None

    def _prepare(self, key: str, seats: tuple[str, ...]) -> bool:
        """Make the folders; whether the host has a topology to mount now, as the answer is kept for good."""
        self._directories.prepare(key, seats)
        return has_virtual_topology(self._root)

    async def _withdraw(self, key: str) -> None:
        try:
            # Also behind a lay-out that outlives its deadline: it must not bind what was refused.
            await self._worker.run(
                lambda: self._directories.withdraw(key), LAY_OUT_DEADLINE_SECONDS, however_late=True
            )
        except (OSError, TimeoutError) as error:
            self._log.error("the container's folder could not be withdrawn", detail=_text(error))


def _text(error: Exception) -> str:
    return str(error) or "it took too long"
