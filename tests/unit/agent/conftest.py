"""What the agent's tests share."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conftest import MACHINES, MakeTree
from tests.unit.agent.living_node import LivingNode, living_node
from tests.unit.builders import LogLines

from railside_agent.raw_machine import RawMachine
from railside_agent.sysfs import read_whole_machine
from railside_sim.manifest import read_manifest
from railside_sim.stand_in_nodes import StandInNodes
from railside_sim.tree import write_tree


@pytest.fixture(scope="session")
def raw(tmp_path_factory: pytest.TempPathFactory) -> RawMachine:
    """The machine that the platform sells for InfiniBand, as read: eight HCAs, and a bond that speaks Ethernet."""
    root = tmp_path_factory.mktemp("raw")
    write_tree(read_manifest(MACHINES / "ecs.hpcpni3.45xlarge.machine"), root, make_node=StandInNodes().make)
    return read_whole_machine(root, StandInNodes())


@pytest.fixture
async def node(make_tree: MakeTree, kubelet_dir: Path, written: LogLines) -> AsyncIterator[LivingNode]:
    """That machine with a kubelet, for the whole agent."""
    root = await asyncio.to_thread(make_tree, "ecs.hpcpni3.45xlarge")
    async with living_node(LivingNode, root, kubelet_dir, written) as made:
        yield made
