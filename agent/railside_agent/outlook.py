"""Puts together what decisions about a pool rest on, as it is known at the moment of asking.

It must not decide anything: it hands the core what cells hold and files tell.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

from railside_agent.allocations import InFlight
from railside_agent.checkpoint_watch import CheckpointWatch
from railside_agent.cross_check import claimed_gpus
from railside_agent.device_nodes import DeviceNodes
from railside_agent.flight_log import Evidence
from railside_agent.holders import Checkpoint, read_checkpoint
from railside_agent.inventory import Inventory, Look
from railside_agent.locality import enforced
from railside_agent.mode import ModeDecision, NodeFacts, decide_mode
from railside_agent.pod_resources import NodeHoldings
from railside_agent.pods import Pods
from railside_agent.pool_rules import PoolRules
from railside_agent.presence import is_called
from railside_agent.recorder import Recorder
from railside_agent.seats import Books, Offer, offer
from railside_agent.situation import Situation
from railside_agent.start_decision import Call, StartDecision, decide
from railside_proto.machine import Hca, Machine
from railside_proto.pool import Binding, Mode
from railside_runtime.cell import Cell

Clock = Callable[[], float]

PODS_PATIENCE_SECONDS: Final = 1.0
"""An agent that has just started serves without the API server, too."""

Named = frozenset[tuple[str, ...]]
"""Seats of containers that there are."""


async def _at_once() -> None:
    """Nobody is asked."""


class Sight:
    """What is seen of the node, the same for all of its pools."""

    def __init__(
        self,
        root: Path,
        nodes: DeviceNodes,
        *,
        inventory: Inventory,
        checkpoint: CheckpointWatch,
        node: Cell[NodeFacts],
        pods: Cell[Pods],
        holdings: Cell[NodeHoldings | None],
        clock: Clock = time.monotonic,
    ) -> None:
        """Look below ``root`` where a moment counts, and at what the others have seen everywhere else."""
        self.inventory = inventory
        self.checkpoint = checkpoint
        self.node = node
        self.pods = pods
        self.holdings = holdings
        self.pods_heard: Callable[[], Awaitable[object]] = _at_once
        """Returns when the API server has told of the pods once; at once unless told otherwise."""
        self.clock = clock
        self._root = root
        self._nodes = nodes
        self._read: tuple[bytes | None, Checkpoint | None] = (b"", Checkpoint())

    @property
    def look(self) -> Look | None:
        """The last look at the machine."""
        return self.inventory.latest.value

    def holders(self) -> tuple[bytes | None, Checkpoint | None]:
        """The kubelet's checkpoint as it was read, and understood: None where it was not, or makes no sense."""
        content = self.checkpoint.latest.value
        read, understood = self._read
        if content is not read:
            understood = None if content is None else read_checkpoint(content)
            # In one step, as two threads may ask: each then has a pair that belongs together.
            self._read = (content, understood)
        return content, understood

    @property
    def complaint(self) -> str | None:
        """What is wrong with the kubelet's checkpoint, if it was read."""
        content, understood = self.holders()
        if content is None or understood is not None:
            return None
        return "the kubelet's checkpoint makes no sense: what was listed and bound stays as it is"

    def is_present(self, hcas: tuple[Hca, ...]) -> bool:
        """Whether the kernel calls and numbers ``hcas`` so at this moment. Blocks."""
        return all(is_called(self._root, self._nodes, hca) for hca in hcas)


class Outlook:
    """What is known for one pool."""

    def __init__(self, rules: PoolRules, sight: Sight, recorder: Recorder) -> None:
        """Decide by ``rules`` on what ``sight`` has, and have ``recorder`` keep it."""
        self.pool = rules.pool
        self.rules = rules.rules
        self.sight = sight
        self._recorder = recorder
        self._loop: asyncio.AbstractEventLoop | None = None
        self.books = Books()
        self.in_flight: Cell[InFlight] = Cell({})
        """Ids that were dealt a moment ago."""
        self.heard: Cell[float | None] = Cell(None)
        """When the kubelet opened the list that it follows."""
        self._configured = rules.mode
        self._remembered: Mode | None = None
        self._dealt_under: dict[tuple[str, int], bytes | None] = {}
        """The checkpoint's content when each deal was seen first."""
        self._landed: frozenset[tuple[str, int]] | set[tuple[str, int]] = frozenset()
        """Deals that a checkpoint has shown since."""

    @property
    def mode(self) -> ModeDecision:
        """The mode in force."""
        return decide_mode(self._configured, self.sight.node.value.label, self._remembered)

    @property
    def remembered(self) -> Mode | None:
        """The mode to go on with where nobody can be asked: the last one that somebody said."""
        return self._remembered

    def remember(self, mode: Mode | None) -> None:
        """Go on with ``mode`` where nobody can be asked."""
        self._remembered = mode

    def evidence(self, bindings: tuple[Binding, ...]) -> Evidence:
        """Everything that is known now."""
        look, pods = self.sight.look, self.sight.pods.value
        content, holders = self.sight.holders()
        doubtful = self._is_in_doubt(content, bindings)
        situation = Situation(
            machine=look.machine if look else None,
            checkpoint=None if doubtful else holders,
            doubtful=doubtful,
            bindings=bindings,
            mode=self.mode.mode,
            ended=pods.over,
            alive=self.alive(bindings),
            claimed_gpus=claimed_gpus(self.sight.holdings.value, look.machine) if look else frozenset(),
            in_flight=self._still_in_flight(content, holders),
            heard_since=self.heard.value,
            now=self.sight.clock(),
        )
        return Evidence(raw=look.raw if look else None, content=content, situation=situation)

    def alive(self, bindings: tuple[Binding, ...]) -> frozenset[str]:
        """UIDs of bound pods that the API server says live."""
        return self.sight.pods.value.alive(one.pod for one in bindings if one.pod)

    def trusted(self, bindings: tuple[Binding, ...]) -> Checkpoint | None:
        """The kubelet's checkpoint, if it is its last word."""
        content, holders = self.sight.holders()
        return None if self._is_in_doubt(content, bindings) else holders

    def named(self, bindings: tuple[Binding, ...]) -> Named | None:
        """Seats of all containers that there are, as far as anybody knows; None in doubt."""
        holders = self.trusted(bindings)
        if holders is None:
            return None
        living = self.alive(bindings)
        alive = frozenset(one.seats for one in bindings if one.pod in living)
        coming = self.in_flight.value.keys()
        dealt = frozenset(one.seats for one in bindings if not coming.isdisjoint(one.seats))
        return alive | dealt | {entry.names for entry in holders.of(self.pool.resource)}

    def list_now(self, bindings: tuple[Binding, ...]) -> tuple[Offer, float]:
        """The list on what is known now, and when that was."""
        self._loop = asyncio.get_running_loop()
        evidence, books = self.evidence(bindings), self.books
        self.books, made = offer(evidence.situation, books, self.pool, self.rules)
        self._recorder.listed(self.pool.name, evidence, books, self.books, made)
        return made, evidence.situation.now

    @property
    def has_topology(self) -> bool:
        """Whether the host had a virtualTopology.xml when it was last looked at."""
        return self.sight.look is not None and self.sight.look.machine.virtual_topology

    async def refresh(self) -> None:
        """Read the kubelet's checkpoint now, and wait a moment for the pods if they were never read.

        What they insist on, and who of them lives, is not in the checkpoint.
        """
        await self.sight.checkpoint.read_now()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PODS_PATIENCE_SECONDS):
                await self.sight.pods_heard()

    async def look(self) -> object:
        """Look at the whole machine now. Raises LookError."""
        return await self.sight.inventory.look()

    def decide(
        self, call: Call, seats: tuple[str, ...], bindings: tuple[Binding, ...]
    ) -> tuple[StartDecision, Machine]:
        """Decide on what is known now. Called in a worker's thread, and reads no file."""
        # The loop may make another list meanwhile.
        evidence, books, tolerated = self.evidence(bindings), self.books, enforced(self.sight.pods.value)
        decision = decide(call, seats, evidence.situation, books, self.pool, self.rules, enforced=tolerated)
        self._keep(partial(self._recorder.decided, self.pool.name, evidence, books, tolerated, call, decision))
        return decision, evidence.situation.machine or Machine()

    def _is_in_doubt(self, content: bytes | None, bindings: tuple[Binding, ...]) -> bool:
        """Whether the checkpoint that was read is not the kubelet's last word.

        It could not be read anew, or is missing though containers hold seats; the kubelet writes it at each list.
        """
        if self.sight.checkpoint.problem.value is not None:
            return True
        return not content and (bool(bindings) or any(one.held for one in self.books.listed))

    def _still_in_flight(self, content: bytes | None, holders: Checkpoint | None) -> frozenset[str]:
        """Ids that were dealt a moment ago, as far as no other checkpoint has shown them since."""
        dealt = self.in_flight.value.items()
        self._dealt_under = under = {deal: self._dealt_under.get(deal, content) for deal in dealt}
        shown = holders.held(self.pool.resource) if holders and dealt else {}
        # Once shown it has landed for good: a pod that has ended meanwhile is not on its way again.
        landed = {deal for deal in dealt if deal[0] in shown and under[deal] is not content}
        self._landed = landed | (self._landed & dealt)
        return frozenset(deal[0] for deal in dealt - self._landed)

    def _keep(self, keep: Callable[[], None]) -> None:
        """Have the recorder keep something, on its own thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(keep)

    def is_present(self, hcas: tuple[Hca, ...]) -> bool:
        """Whether the kernel calls and numbers ``hcas`` so at this moment. Blocks."""
        return self.sight.is_present(hcas)
