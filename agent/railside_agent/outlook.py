"""Puts together what decisions about a pool rest on, as it is known at the moment of asking.

It must not decide anything: it hands the core what cells hold and files tell.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Final

from railside_agent.allocations import InFlight
from railside_agent.cross_check import claimed_gpus
from railside_agent.flight_log import Evidence
from railside_agent.holders import Checkpoint
from railside_agent.locality import enforced
from railside_agent.mode import ModeDecision, decide_mode
from railside_agent.pool_rules import PoolRules
from railside_agent.recorder import Recorder
from railside_agent.seats import Books, Offer, offer
from railside_agent.sight import Sight
from railside_agent.situation import Situation
from railside_agent.start_decision import Call, StartDecision, decide
from railside_proto.machine import Hca, Machine
from railside_proto.pool import Binding, Mode
from railside_proto.record import TopologyPolicy
from railside_runtime.cell import Cell

PODS_PATIENCE_SECONDS: Final = 1.0
"""An agent that has just started serves without the API server, too."""

POLICY_PATIENCE_SECONDS: Final = 2.0
"""Once in a node's life: nobody holds a seat yet."""

Named = frozenset[tuple[str, ...]]
"""Seats of containers that there are."""


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
        self.remembered_policy: TopologyPolicy | None = None
        """What the kubelet told in an earlier run of the agent."""
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

    @property
    def policy(self) -> TopologyPolicy | None:
        """The kubelet's, as it told it last."""
        return self.sight.kubelet.value.topology_policy or self.remembered_policy

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
            policy=self.policy,
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

    async def policy_heard(self) -> None:
        """Wait a moment for the kubelet's policy, where it decides on the first list that there ever was.

        What is dealt from a list with hints keeps the next ones so: the order of two answers must not decide it.
        """
        _, holders = self.sight.holders()
        is_first = self.books.hinted is None and not (holders and holders.held(self.pool.resource))
        if self.policy is None and is_first and self.rules.advertise_topology == "auto":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLICY_PATIENCE_SECONDS):
                    await self.sight.kubelet_heard()

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
