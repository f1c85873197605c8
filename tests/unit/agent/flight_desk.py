"""A recorder beside real outlooks of two pools, on a world that a test changes by hand. It must not judge."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec
from structlog.typing import FilteringBoundLogger
from tests.unit.builders import LogLines

from railside_agent.checkpoint_watch import CheckpointWatch
from railside_agent.discovery import discover
from railside_agent.flight_log import Began, Note, read
from railside_agent.flight_ring import recorded
from railside_agent.inventory import Inventory, Look
from railside_agent.outlook import Outlook
from railside_agent.own_node import NodeFacts
from railside_agent.pod_resources import Allocatable, ClaimedDevice, ContainerHolding, NodeHoldings
from railside_agent.pods import Pod, Pods
from railside_agent.pool_rules import pool_rules
from railside_agent.pool_settings import PoolSettings
from railside_agent.raw_machine import RawMachine, RawPortState, RawRdmaDevice
from railside_agent.recorder import Recorder
from railside_agent.replay import Replayed, replay
from railside_agent.settings import Settings
from railside_agent.sight import Sight
from railside_agent.start_decision import Call, StartDecision
from railside_agent.virtual_topology import TopologySource
from railside_proto.names import RECORDER_DIR, RESOURCE
from railside_proto.pool import Binding
from railside_runtime.cell import Cell
from railside_sim.stand_in_nodes import StandInNodes

ROCE = "example.com/roce"
INFINIBAND_POOL, ROCE_POOL = "infiniband-rdma", "roce"
SETTINGS = Settings(pools=(PoolSettings(), PoolSettings(resource=ROCE, link_layer="Ethernet")))

Step = Replayed | Note | Began


class _Latest:
    """What an inventory, or a watch of the checkpoint, is to an outlook."""

    def __init__(self, value: object) -> None:
        self.latest = Cell(value)
        self.problem: Cell[str | None] = Cell(None)


class Desk:
    """One node: its machine as it was read, the kubelet's entries by pod, and the two pools' outlooks."""

    def __init__(self, raw: RawMachine, root: Path, *, bytes_at_most: int = 8 << 20, log: object = None) -> None:
        self.written = LogLines()
        self.settings = SETTINGS
        self._rules = tuple(pool_rules(SETTINGS))
        self.raw = raw
        self.entries: list[dict[str, object]] = []
        self.registered: dict[str, list[str]] = {}
        self.bindings: dict[str, tuple[Binding, ...]] = {}
        self.now = 1000.0
        self._root = root
        self._inventory, self._checkpoint = _Latest(None), _Latest(b"")
        self.node = Cell(NodeFacts(seen=True, mode_label="ib-shared"))
        self.pods = Cell(Pods())
        self.holdings: Cell[NodeHoldings | None] = Cell(None)
        self.recorder = Recorder(
            root,
            bytes_at_most=bytes_at_most,
            began=self._began,
            log=cast("FilteringBoundLogger", log or self.written.log),
        )
        self._sight = Sight(
            root,
            StandInNodes(),
            inventory=cast("Inventory", self._inventory),
            checkpoint=cast("CheckpointWatch", self._checkpoint),
            node=self.node,
            pods=self.pods,
            holdings=self.holdings,
            clock=lambda: self.now,
        )
        self.outlooks = {one.pool.name: Outlook(one, self._sight, self.recorder) for one in self._rules}

    def _began(self, at: str) -> Began:
        return Began(version="1", topology=TopologySource.AUTO, pools=self._rules, at=at)

    # The world

    def look(self, raw: RawMachine | None = None) -> None:
        self.raw = raw or self.raw
        machine = discover(self.raw, [one.pool.selector for one in self._rules], topology=TopologySource.AUTO)
        self._inventory.latest.set(Look(machine=machine, raw=self.raw, at=self.now))

    def port(self, device: str, state: str) -> None:
        """``device`` answers that its first port is in ``state``, as its file says it."""
        states = (RawPortState(name="1", state=state),)
        self._edit(device, lambda one: msgspec.structs.replace(one, port_states=states))

    def silence(self, device: str) -> None:
        """``device`` does not answer."""
        self._edit(device, lambda one: msgspec.structs.replace(one, port_states=None))

    def unplug(self, device: str) -> RawMachine:
        """Take ``device`` away; what was there before."""
        before = self.raw
        rest = tuple(one for one in before.rdma_devices if one.name != device)
        self.look(msgspec.structs.replace(before, rdma_devices=rest))
        return before

    def deal(self, pod: str, *seats: str, resource: str = RESOURCE, gpus: tuple[str, ...] = ()) -> None:
        """The kubelet gives ``pod`` its devices, and writes that down."""
        self.entries += [_entry(pod, resource, seats)] + ([_entry(pod, "nvidia.com/gpu", gpus)] if gpus else [])
        self.write_checkpoint()

    def end(self, pod: str) -> None:
        """The kubelet has forgotten ``pod``."""
        self.entries = [one for one in self.entries if one["PodUID"] != pod]
        self.write_checkpoint()

    def write_checkpoint(self, content: bytes | None = None) -> None:
        data = {"PodDeviceEntries": self.entries, "RegisteredDevices": self.registered}
        self._checkpoint.latest.set(content or msgspec.json.encode({"Data": data, "Checksum": 1}))

    def distrust(self, problem: str | None) -> None:
        """The kubelet's checkpoint cannot be read anew, for this ``problem``."""
        self._checkpoint.problem.set(problem)

    def claim(self, gpu: int) -> None:
        """A container has ``gpu`` by a resource claim."""
        claimed = ClaimedDevice(claim="c", namespace="d", driver="gpu.nvidia.com", pool="p", device=f"gpu-{gpu}")
        holding = ContainerHolding(namespace="d", pod="claimer", container="main", claimed=(claimed,))
        self.holdings.set(NodeHoldings(containers=(holding,), allocatable=Allocatable()))

    def tell_pod(self, uid: str, *, ended: bool = False, locality: str | None = None) -> None:
        """The API server tells of a pod."""
        pod = Pod(
            uid=uid,
            name=uid,
            namespace="d",
            ended=ended,
            terminating=False,
            locality=locality,
            locality_enforce=locality is not None,
        )
        known = {**self.pods.value.by_uid, uid: pod}
        self.pods.set(Pods(pods=tuple(known.values()), by_uid=known, synced=True))

    # The agent

    def relist(self, pool: str = INFINIBAND_POOL) -> dict[str, bool]:
        """Make the list of ``pool``; the health of each seat."""
        made, _ = self.outlooks[pool].list_now(self.bindings.get(pool, ()))
        return {one.seat.id: one.healthy for one in made.seats}

    def decide(self, *seats: str, pool: str = INFINIBAND_POOL) -> StartDecision:
        """Decide a start, which is recorded at the loop's next turn."""
        return self.outlooks[pool].decide(Call.START, seats, self.bindings.get(pool, ()))[0]

    async def start(self, *seats: str, pool: str = INFINIBAND_POOL) -> StartDecision:
        """Decide a start, carry it out and list anew."""
        decision = await asyncio.to_thread(lambda: self.decide(*seats, pool=pool))
        await asyncio.to_thread(lambda: None)
        binding = getattr(decision.outcome, "binding", None)
        if binding is not None:
            others = tuple(one for one in self.bindings.get(pool, ()) if set(one.seats).isdisjoint(seats))
            self.bindings[pool] = (*others, binding)
        self.relist(pool)
        return decision

    async def steps(self) -> list[Step]:
        """Everything that was recorded, decided again."""
        return list(replay(read(await self.text())))

    async def text(self) -> bytes:
        """Everything that was recorded."""
        # A start that was decided is kept at the loop's next turn.
        await asyncio.to_thread(lambda: None)
        assert await asyncio.to_thread(self.recorder.flush, 10)
        return await asyncio.to_thread(recorded, self._root / RECORDER_DIR)

    async def decided(self) -> list[Replayed]:
        return [step for step in await self.steps() if isinstance(step, Replayed)]

    def _edit(self, device: str, change: Callable[[RawRdmaDevice], RawRdmaDevice]) -> None:
        devices = tuple(change(one) if one.name == device else one for one in self.raw.rdma_devices)
        self.look(msgspec.structs.replace(self.raw, rdma_devices=devices))


def _entry(pod: str, resource: str, ids: tuple[str, ...]) -> dict[str, object]:
    by_node: dict[str, list[str]] = {}
    for one in ids:
        by_node.setdefault(one[1] if one[0] == "n" else "-1", []).append(one)
    entry = {"PodUID": pod, "ContainerName": "main", "ResourceName": resource, "DeviceIDs": by_node}
    return {**entry, "AllocResp": ""}


def found(steps: list[Replayed]) -> list[str]:
    """Every difference, with what was decided."""
    return [f"{one.what}: {difference}" for one in steps for difference in one.differences]
