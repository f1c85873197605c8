"""Answers for a played machine and for the agent's eyes on it.

It must not skip: outside of tests/hotplug/run these tests fail.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.hotplug.testbed import Testbed, is_played

WATCHER = Path(__file__).parent / "watcher.py"


class Watcher:
    """The agent's eyes, in a process of their own."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.messages: dict[str, int] = {}

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first machine from now on for which it holds, HCAs by name; it waits as long as a test may take."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            seen = msgspec.json.decode(line)
            self.messages = seen["messages"]
            hcas = {hca["name"]: hca for hca in seen["machine"]["hcas"]}
            if holds(hcas):
                return hcas
        raise AssertionError("the watcher has ended")

    def until_names(self, *names: str) -> None:
        self.until(lambda hcas: sorted(hcas) == sorted(names))


@pytest.fixture
def testbed() -> Iterator[Testbed]:
    """An empty machine."""
    if not is_played():
        pytest.fail("These tests run under umockdev: start them by tests/hotplug/run.", pytrace=False)
    bed = Testbed()
    yield bed
    bed.close()


@pytest.fixture
def watcher(testbed: Testbed) -> Iterator[Watcher]:
    """The agent's eyes, open on a machine with HCA 0."""
    testbed.add_hca(0)
    with subprocess.Popen([sys.executable, WATCHER], stdout=subprocess.PIPE) as process:  # noqa: S603 -- ours
        try:
            seeing = Watcher(process)
            seeing.until_names("mlx5_0")
            yield seeing
        finally:
            process.kill()
