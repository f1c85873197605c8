"""What every suite shares: the guard of the event loop, the recordings of real machines, our own machines."""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from blockbuster import BlockingError, blockbuster_ctx

from railside_sim.manifest import read_manifest
from railside_sim.stand_in_nodes import StandInNodes
from railside_sim.tree import write_tree

REPOSITORY = Path(__file__).parent.parent
MACHINES = REPOSITORY / "tests/machines"
DEFAULT_RECORDINGS = REPOSITORY.parent / "shared/data"

MakeTree = Callable[[str], Path]


@pytest.fixture(scope="session", autouse=True)
def _no_loop_by_accident() -> None:
    """Without this, pytest-asyncio asks Python 3.11 for the current loop, which makes one that nobody closes."""
    asyncio.set_event_loop(None)


@pytest.fixture(autouse=True)
def guarded_loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Fail a test in which product code blocks the event loop, however shortly; gives what has blocked so far."""
    blocked: list[str] = []

    class RecordedError(BlockingError):
        """A server turns the error into an answer; the record fails the test all the same."""

        def __init__(self, function: str) -> None:
            super().__init__(function)
            blocked.append(str(self))

    monkeypatch.setattr("blockbuster.blockbuster.BlockingError", RecordedError)
    with blockbuster_ctx(["railside_agent", "railside_runtime", "railside_extender", "railside_main"]) as guard:
        # It runs a loop of its own, in a thread of its own, and holds nobody up there.
        for function in guard.functions.values():
            function.can_block_in("railside_runtime/kube.py", "_in_a_loop_of_its_own")
        yield blocked
    assert blocked == []


@pytest.fixture
def make_tree(tmp_path: Path) -> MakeTree:
    """Make the tree of one of our machines, with stand-ins for its device nodes."""

    def make(name: str = "ecs.hpcpni3.45xlarge") -> Path:
        root = tmp_path / name
        write_tree(read_manifest(MACHINES / f"{name}.machine"), root, make_node=StandInNodes().make)
        return root

    return make


def pytest_report_header() -> str:
    """Say in one line, never silently, where the recordings are or that their tests are left out."""
    folder = recordings_folder()
    return (
        f"recordings: {folder}" if folder.is_dir() else f"RECORDINGS MISSING, their tests are left out: {folder}"
    )


def recordings_folder() -> Path:
    """Where the recordings of real machines are."""
    return Path(os.environ.get("RAILSIDE_TEST_DATA", DEFAULT_RECORDINGS))


@pytest.fixture(scope="session")
def recordings() -> Path:
    """The folder of recordings; in CI a missing one is a failure, elsewhere it leaves the test out."""
    folder = recordings_folder()
    if folder.is_dir():
        return folder
    sentence = f"recordings of real machines are not at {folder}; set RAILSIDE_TEST_DATA to where they are"
    if os.environ.get("CI") == "true":
        pytest.fail(sentence)
    pytest.skip(sentence)
