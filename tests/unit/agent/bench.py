"""A pool's starts below a root, with an outlook that a test sets. It must not decide anything itself."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
from tests.unit.agent.situations import POOL, RULES, entry, placed, situation
from tests.unit.builders import LogLines

from railside_agent.allocate_starts import AllocateStarts
from railside_agent.allocations import Allocations, InFlight
from railside_agent.container_edits import Style, allocation_key
from railside_agent.device_dirs import DeviceDirectories
from railside_agent.inventory import LookError
from railside_agent.plugin import Starts
from railside_agent.seats import Books
from railside_agent.situation import Situation
from railside_agent.start_decision import Call, StartDecision, decide
from railside_agent.starts import ContainerStarts
from railside_proto.machine import DeviceNode, Hca, Machine
from railside_proto.pool import Binding, Pool
from railside_runtime.cell import Cell
from railside_sim.stand_in_nodes import StandInNodes

SEATS = ("n0-s0",)
LONGEST_BLOCK_SECONDS = 5
"""So that a test that fails does not hang the suite."""


class FakeOutlook:
    """Decides on ``now``, and a look makes ``newer`` of it what is known."""

    def __init__(self, now: Situation, in_flight: Cell[InFlight]) -> None:
        self.now = now
        self._in_flight = in_flight
        self.newer: Situation | None = None
        self.has_topology = False
        self.present: Callable[[tuple[Hca, ...]], bool] = lambda _: True
        self.look_problem: str | None = None
        self.asked: list[str] = []
        self.hangs = False
        """Whether a look never ends."""
        self.answers = threading.Event()
        self.answers.set()

    async def refresh(self) -> None:
        self.asked.append("refresh")

    async def look(self) -> object:
        self.asked.append("look")
        if self.hangs:
            await asyncio.Event().wait()
        if self.look_problem is not None:
            raise LookError(self.look_problem)
        self.now = self.newer or self.now
        return self.now.machine

    def decide(
        self, call: Call, seats: tuple[str, ...], bindings: tuple[Binding, ...]
    ) -> tuple[StartDecision, Machine]:
        now = self._asked("decide", bindings)
        return decide(call, seats, now, Books(), POOL, RULES, enforced={}), now.machine or Machine()

    def is_present(self, hcas: tuple[Hca, ...]) -> bool:
        return self.present(hcas)

    def _asked(self, what: str, bindings: tuple[Binding, ...]) -> Situation:
        self.asked.append(what)
        self.answers.wait(LONGEST_BLOCK_SECONDS)
        return msgspec.structs.replace(self.now, bindings=bindings, in_flight=frozenset(self._in_flight.value))


class FullDisk(StandInNodes):
    """Makes no node."""

    def make(self, path: Path, node: DeviceNode) -> None:
        raise OSError(28, "No space left on device", str(path), None, node.name)


class Directories(DeviceDirectories):
    """Says when it has closed a folder; refuses to while ``stuck``, or to close the ``refusing`` one."""

    def __init__(self, root: Path, nodes: StandInNodes, pool: Pool) -> None:
        super().__init__(root, nodes, pool)
        self.closed = threading.Semaphore(0)
        self.stuck = False
        self.refusing: str | None = None

    def close(self, key: str) -> None:
        if self.stuck or key == self.refusing:
            raise OSError(30, "Read-only file system", key)
        super().close(key)
        self.closed.release()


class Bench:
    """Starts of one pool, and what they told."""

    def __init__(
        self,
        root: Path,
        written: LogLines,
        *,
        replayed: bool = False,
        nodes: StandInNodes | None = None,
    ) -> None:
        self.root = root
        self.told: list[StartDecision] = []
        self.in_flight: Cell[InFlight] = Cell({})
        now = situation(placed(1), placed(2), entries=[entry("p", *SEATS)])
        self.outlook = FakeOutlook(now, self.in_flight)
        self.directories = Directories(root, nodes or StandInNodes(), POOL)
        log = written.log
        self.allocations = Allocations(
            POOL, Style(), self.directories, in_flight=self.in_flight, replayed=replayed, log=log
        )
        told = self.told.append
        self.starts: Starts = (
            AllocateStarts(self.allocations, outlook=self.outlook, told=told)
            if replayed
            else ContainerStarts(root, self.allocations, outlook=self.outlook, told=told, log=log)
        )

    def know(self, *hcas: Hca, **facts: object) -> None:
        """What is known from now on: ``hcas``, and what was known of everything else unless told."""
        self.outlook.now = msgspec.structs.replace(self.outlook.now, machine=situation(*hcas).machine, **facts)

    def folder(self, *seats: str) -> Path:
        return self.root / "run/railside/alloc" / allocation_key(POOL, seats)

    async def found(self, *seats: str) -> list[str]:
        """Nodes that a start of the container would find."""
        return await asyncio.to_thread(_names_in, self.folder(*seats) / "ib")


def _names_in(link: Path) -> list[str]:
    return sorted(path.name for path in link.iterdir()) if link.is_symlink() else []
