"""What the fast suite shares."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.conftest import MACHINES
from tests.unit.builders import LogLines, seen
from tests.unit.kube_server import FakeApiServer

from railside_proto.machine import Machine
from railside_sim.manifest import read_manifest
from railside_sim.stand_in_nodes import StandInNodes
from railside_sim.tree import write_tree


@pytest.fixture
def written() -> LogLines:
    """A logger, and what was written to it."""
    return LogLines()


@pytest.fixture
def kubelet_dir() -> Iterator[Path]:
    """A folder whose sockets' paths are short enough for the kernel (107 bytes)."""
    with tempfile.TemporaryDirectory(prefix="kubelet-") as folder:
        yield Path(folder)


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    """An API server that serves nothing yet."""
    async with FakeApiServer() as serving:
        yield serving


@pytest.fixture(scope="session")
def our_machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """What the agent sees of the machine that the platform sells for InfiniBand."""
    root = tmp_path_factory.mktemp("ours")
    manifest = read_manifest(MACHINES / "ecs.hpcpni3.45xlarge.machine")
    write_tree(manifest, root, make_node=StandInNodes().make)
    return seen(root)
