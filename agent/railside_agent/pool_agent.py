"""What serves one pool, put together: its outlook, its containers' starts, its list, its plugin, its registration.

It must hold no decision.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Never

import msgspec
from structlog.typing import FilteringBoundLogger

from railside_agent.allocate_starts import AllocateStarts
from railside_agent.allocations import Allocations
from railside_agent.container_edits import Style
from railside_agent.cross_check import disagreements
from railside_agent.device_dirs import DeviceDirectories
from railside_agent.device_nodes import DeviceNodes
from railside_agent.holders import Checkpoint
from railside_agent.offering import Offering
from railside_agent.outlook import Outlook
from railside_agent.plugin import DevicePlugin, Starts
from railside_agent.pod_resources import NodeHoldings
from railside_agent.pool_rules import PoolRules
from railside_agent.preference import Asking, asking_after, lacks_of
from railside_agent.recorder import Recorder
from railside_agent.registration import Registrar
from railside_agent.rules import BindingTime
from railside_agent.seats import Offer, wants_registration
from railside_agent.sight import Sight
from railside_agent.start_decision import StartDecision
from railside_agent.starts import ContainerStarts
from railside_agent.state_file import StateFile
from railside_agent.teller import Teller
from railside_agent.tidings import Tiding, of_cross_check, of_deal, of_health, of_mode, of_restart, of_start
from railside_agent.view import PoolView
from railside_proto.pool import Binding
from railside_proto.reasons import Reason
from railside_runtime.cell import Cell, until_any_changes
from railside_runtime.waiting import first_of


class PoolPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings say of one pool."""

    rules: PoolRules
    style: Style
    binding: BindingTime
    root: Path
    kubelet_dir: Path
    conflicting: tuple[str, ...]


CALM_SECONDS: Final = 0.05
"""How long a new list waits at most for calls of the kubelet that are under way."""


class PoolAgent:
    """One pool of the node."""

    def __init__(
        self,
        plan: PoolPlan,
        *,
        sight: Sight,
        nodes: DeviceNodes,
        teller: Teller,
        recorder: Recorder,
        log: FilteringBoundLogger,
    ) -> None:
        """Serve ``plan`` on what ``sight`` sees."""
        self._plan = plan
        self._log = log
        self._sight = sight
        self._teller = teller
        self._recorder = recorder
        self._pool = pool = plan.rules.pool
        self._asking: Asking = "unknown"
        self.lacks: Cell[tuple[Reason, ...]] = Cell(())
        """What the kubelet turned out not to ask."""
        self._outlook = Outlook(plan.rules, sight, recorder)
        self._allocations = Allocations(
            pool,
            plan.style,
            DeviceDirectories(plan.root, nodes, pool),
            in_flight=self._outlook.in_flight,
            replayed=plan.binding == "allocate",
            log=log,
        )
        self._offering = Offering(
            self._outlook,
            allocations=self._allocations,
            state=StateFile(plan.root, pool, log),
            restart=self._tell_restart,
            calm=lambda: self._plugin.settled(CALM_SECONDS),
            log=log,
        )
        self._plugin = DevicePlugin(
            self._offering.offer,
            self._starts(),
            heard=self._outlook.heard,
            dealt=self._tell_deal,
            preferred=self._note_preference,
        )
        self._registrar = Registrar(pool, self._plugin, plan.kubelet_dir, log)

    def _starts(self) -> Starts:
        plan, outlook, told = self._plan, self._outlook, self._tell_start
        match plan.binding:
            case "allocate":
                return AllocateStarts(self._allocations, outlook=outlook, told=told)
            case "start":
                return ContainerStarts(plan.root, self._allocations, outlook=outlook, told=told, log=self._log)

    @property
    def name(self) -> str:
        """The pool's."""
        return self._pool.name

    @property
    def busy(self) -> bool:
        """Whether a call of the kubelet about a container is under way."""
        return self._plugin.busy

    @property
    def heard(self) -> Cell[float | None]:
        """When the kubelet opened the list that it follows: each of its runs opens one."""
        return self._outlook.heard

    @property
    def sources(self) -> tuple[Cell[Any], ...]:
        """What ``view`` rests on, beside the machine and the node."""
        return (self._offering.offer, self._registrar.state)

    async def run(self) -> Never:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._offering.run(), name="offering")
            tasks.create_task(self._keep_registered(), name="registration")
            tasks.create_task(self._tell_changes(), name="tidings")
        raise AssertionError("every task of the group runs for ever")

    def view(self) -> PoolView:
        """The pool as it is now."""
        state = msgspec.structs.replace(self._registrar.state.value, streams=self._plugin.streams.value)
        return PoolView(
            pool=self._pool,
            mode=self._outlook.mode,
            offer=self._offering.offer.value,
            registration=state,
            bindings=self._allocations.bindings.value,
            wanted=self._is_wanted(self._offering.offer.value),
            lacks=self.lacks.value,
        )

    def cross_checked(self, said: NodeHoldings, checkpoint: Checkpoint) -> Iterator[Tiding]:
        """Where the kubelet's account of this pool's holders is another than its checkpoint."""
        found = disagreements(said, checkpoint, self._sight.pods.value, self._pool.resource)
        return map(of_cross_check, found)

    def _is_wanted(self, offer: Offer) -> bool:
        return wants_registration(offer, self._outlook.mode.mode)

    async def _keep_registered(self) -> Never:
        """Be registered while there is something of ours: before and behind that, another plugin is left alone."""
        offer = self._offering.offer
        while True:
            await offer.until(self._is_wanted)
            await first_of(self._registrar.run(), offer.until(lambda now: not self._is_wanted(now)))
            await self._registrar.rest()

    async def _tell_changes(self) -> Never:
        """A label that is unknown changes no list, and must be told all the same."""
        offers, node = self._offering.offer, self._sight.node
        before, mode = Offer(), None
        while True:
            seen: list[tuple[Cell[object], object]] = [(offers, offers.value), (node, node.value)]  # type: ignore[list-item]
            offer, now = offers.value, self._outlook.mode
            self._teller.tell((*of_mode(mode, now), *of_health(before, offer)))
            before, mode = offer, now
            await until_any_changes(seen)

    def _tell_start(self, decision: StartDecision) -> None:
        self._teller.tell(of_start(decision, self._sight.pods.value, self._plan.conflicting))

    def _tell_restart(self, binding: Binding) -> None:
        self._teller.tell((of_restart(binding),))

    def _note_preference(self, seats: tuple[str, ...]) -> None:
        self._recorder.note("GetPreferredAllocation", pool=self.name, seats=seats)
        self._learn("asks")

    def _tell_deal(self, seats: tuple[str, ...]) -> None:
        self._recorder.note("Allocate", pool=self.name, seats=seats)
        self._learn(self._asking_after(seats))
        self._teller.tell(of_deal(seats, self._allocations.bindings.value, self._sight.pods.value))

    def _learn(self, asking: Asking) -> None:
        self._asking = asking
        self.lacks.set(lacks_of(asking))

    def _asking_after(self, seats: tuple[str, ...]) -> Asking:
        _, checkpoint = self._sight.holders()
        offer, coming = self._offering.offer.value, self._outlook.in_flight.value
        return asking_after(self._asking, seats, offer, checkpoint, resource=self._pool.resource, coming=coming)
