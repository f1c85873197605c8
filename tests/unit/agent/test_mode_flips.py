import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
from tests.unit.builders import LogLines, hca, machine

from railside_agent.checkpoint_watch import CheckpointWatch
from railside_agent.container_edits import Style
from railside_agent.event_book import Saying
from railside_agent.flight_log import Began
from railside_agent.inventory import Inventory, Look
from railside_agent.own_node import NodeFacts
from railside_agent.pods import Pods
from railside_agent.pool_agent import PoolAgent, PoolPlan
from railside_agent.pool_rules import pool_rules
from railside_agent.raw_machine import RawMachine
from railside_agent.recorder import Recorder
from railside_agent.settings import Settings
from railside_agent.sight import Sight
from railside_agent.teller import Teller
from railside_agent.virtual_topology import TopologySource
from railside_proto.names import DEVICE_PLUGINS
from railside_runtime.cell import Cell
from railside_sim.kubelet import EmbeddedKubelet
from railside_sim.stand_in_nodes import StandInNodes

_SECONDS = 5.0


class _Inventory:
    """A machine of two HCAs, looked at once."""

    def __init__(self) -> None:
        self.latest: Cell[Look | None] = Cell(Look(machine=machine(hca(1), hca(2, 1)), raw=RawMachine(), at=0.0))


class _Node:
    """One pool before a kubelet, on a node whose label a test sets."""

    def __init__(self, root: Path, kubelet_dir: Path, kubelet: EmbeddedKubelet) -> None:
        self.written = LogLines()
        self.events: asyncio.Queue[Saying] = asyncio.Queue()
        self.kubelet = kubelet
        self.label: Cell[NodeFacts] = Cell(NodeFacts(seen=True, mode_label="ib-shared"))
        self._folder = kubelet_dir / DEVICE_PLUGINS
        log, pods = self.written.log, Cell(Pods())
        (rules,) = pool_rules(Settings(shares_per_hca=4))
        self.checkpoint = CheckpointWatch(kubelet_dir, log)
        sight = Sight(
            root,
            StandInNodes(),
            inventory=cast("Inventory", _Inventory()),
            checkpoint=self.checkpoint,
            node=self.label,
            pods=pods,
            holdings=Cell(None),
        )
        plan = PoolPlan(
            rules=rules, style=Style(), binding="start", root=root, kubelet_dir=kubelet_dir, conflicting=()
        )
        self.pool = PoolAgent(
            plan,
            sight=sight,
            nodes=StandInNodes(),
            teller=Teller(log, node="n1", pods=pods, say=self.events.put_nowait),
            recorder=Recorder(root, bytes_at_most=0, began=_began, log=log),
            log=log,
        )

    async def set(self, label: str | None) -> None:
        self.label.set(NodeFacts(seen=True, mode_label=label))

    async def counted(self, capacity: int, allocatable: int) -> None:
        def holds() -> bool:
            status = self.kubelet.status_of()
            return (status.capacity, status.allocatable) == (capacity, allocatable)

        await self.kubelet.until(holds)

    async def socket(self) -> tuple[int, int]:
        (own,) = self._folder.glob("railside-*.sock")
        found = await asyncio.to_thread(own.stat)
        return found.st_ino, found.st_mtime_ns

    @property
    def registrations(self) -> list[bool]:
        return [line["registered"] for line in self.written.lines if line["event"] == "registration"]


def _began(at: str) -> Began:
    return Began(version="1", topology=TopologySource.AUTO, pools=(), at=at)


@pytest.fixture
async def node(tmp_path: Path, kubelet_dir: Path) -> AsyncIterator[_Node]:
    rng = random.Random(1)  # noqa: S311 -- a repeatable choice
    async with EmbeddedKubelet(kubelet_dir, read_node=StandInNodes().read, rng=rng) as kubelet:
        made = _Node(tmp_path, kubelet_dir, kubelet)
        running = [asyncio.create_task(part.run()) for part in (made.checkpoint, made.pool)]
        yield made
        for task in running:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*running)


async def test_a_mode_that_changes_restarts_no_server(node: _Node) -> None:
    """Over every change of the label the kubelet keeps the one stream on the one socket (B-DP-32)."""
    await node.counted(2, 2)
    before = await node.socket()
    await node.set("ib-shared-multi")
    await node.counted(8, 8)
    await node.set("nonsense")
    await node.set("ib-shared")
    await node.counted(8, 2)
    await node.set("ib-shared-multi")
    await node.counted(8, 8)
    assert await node.socket() == before
    assert node.registrations == [True]
    assert node.pool.view().registration.streams == 1


async def test_a_value_that_is_no_mode_is_told_though_the_list_stays(node: _Node) -> None:
    """A label that is misspelt gets an Event on the node, once, and the seats stay as they are (B-DP-61)."""
    await node.counted(2, 2)
    await node.set("ib-sharde")
    first = await asyncio.wait_for(node.events.get(), _SECONDS)
    await node.set("ib-shraed")
    second = await asyncio.wait_for(node.events.get(), _SECONDS)
    assert ([first.reason, second.reason], node.events.empty()) == (["ModeLabelUnknown"] * 2, True)
    assert ("ib-sharde" in first.message, "ib-shraed" in second.message) == (True, True)
    assert node.kubelet.status_of().allocatable == 2


async def test_a_label_that_goes_withdraws_the_list_and_nothing_else(node: _Node) -> None:
    """A node whose label is taken off offers nothing; pods are waited with, and the server is up again with it."""
    await node.counted(2, 2)
    await node.set(None)
    await node.counted(2, 0)
    await node.set("ib-shared")
    await node.counted(2, 2)
    assert node.pool.view().mode.source == "label"
