import asyncio
import threading
from pathlib import Path

import pytest
from tests.unit.builders import ONE_HCA, TWO_NUMA, LogLines, machine, seen, tree

from railside_agent.inventory import Inventory, LookError
from railside_proto.machine import DeviceNode
from railside_sim.stand_in_nodes import StandInNodes

_LONGEST_HANG_SECONDS = 5
"""So that a test that fails does not hang the suite."""


class _Firmware(StandInNodes):
    """Answers at once, or only when it is released."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()

    def read(self, path: Path) -> DeviceNode | None:
        self.answers.wait(_LONGEST_HANG_SECONDS)
        return super().read(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tree(TWO_NUMA + ONE_HCA, tmp_path)


@pytest.fixture
def firmware() -> _Firmware:
    return _Firmware()


@pytest.fixture
def inventory(root: Path, firmware: _Firmware, written: LogLines) -> Inventory:
    return Inventory(root, firmware, resync_seconds=0.01, log=written.log, deadline_seconds=0.1)


async def test_a_look_tells_all_who_follow(inventory: Inventory, root: Path) -> None:
    """A look comes back with the machine and sets the cell."""
    before = inventory.machine.value
    now = await inventory.look()
    expected = await asyncio.to_thread(seen, root)
    assert (None, expected, expected) == (before, now, inventory.machine.value)


async def test_hardware_that_hangs_is_an_error_within_the_deadline(
    inventory: Inventory, firmware: _Firmware
) -> None:
    """A device whose files hang costs the deadline and no more, and what was known is kept (B-DP-42)."""
    known = machine()
    inventory.machine.set(known)
    firmware.answers.clear()
    loop = asyncio.get_running_loop()
    started = loop.time()
    with pytest.raises(LookError, match=r"sysfs did not answer within 0\.1 s"):
        await inventory.look()
    assert loop.time() - started < _LONGEST_HANG_SECONDS / 2
    assert known == inventory.machine.value
    firmware.answers.set()


async def test_hardware_that_hangs_takes_one_thread(inventory: Inventory, firmware: _Firmware) -> None:
    """However often it is looked at, a hanging device leaves threads for everything else that must go on."""
    firmware.answers.clear()
    before = threading.active_count()
    for _ in range(5):
        with pytest.raises(LookError):
            await inventory.look()
    assert threading.active_count() - before <= 1
    firmware.answers.set()


async def test_looks_go_on_after_one_that_hung(
    inventory: Inventory, firmware: _Firmware, written: LogLines
) -> None:
    """When the hardware answers again so does the inventory (B-DP-38)."""
    firmware.answers.clear()
    hanging = asyncio.create_task(inventory.look())
    await asyncio.wait([hanging], timeout=0.01)
    hanging.cancel()
    await asyncio.wait([hanging])
    firmware.answers.set()
    now = await inventory.look()
    assert [hca.name for hca in now.hcas] == ["mlx5_0"]
    assert written.events == []


async def test_a_running_inventory_looks_at_once(inventory: Inventory) -> None:
    """The first look does not wait for the resync."""
    running = asyncio.create_task(inventory.run())
    found = await inventory.machine.until(lambda value: value is not None)
    running.cancel()
    await asyncio.wait([running])
    assert found is not None
    assert running.cancelled()


async def test_a_running_inventory_tells_of_hardware_that_hangs(
    inventory: Inventory, firmware: _Firmware, written: LogLines
) -> None:
    """A look that failed is told, and the next is tried at the next resync."""
    firmware.answers.clear()
    running = asyncio.create_task(inventory.run())
    while len(written.events) < 2:
        await asyncio.wait([running], timeout=0.01)
    firmware.answers.set()
    running.cancel()
    await asyncio.wait([running])
    assert {"the machine could not be looked at"} == set(written.events)
