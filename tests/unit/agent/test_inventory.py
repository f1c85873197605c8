import asyncio
import threading
from pathlib import Path

import msgspec
import pytest
from tests.unit.builders import ONE_HCA, TWO_NUMA, LogLines, machine, seen, tree

from railside_agent.holders import HeldId
from railside_agent.inventory import Inventory, Look, LookError
from railside_proto.machine import DeviceNode
from railside_proto.names import RESOURCE
from railside_proto.pool import Pool
from railside_sim.stand_in_nodes import StandInNodes

_LONGEST_HANG_SECONDS = 5
"""So that a test that fails does not hang the suite."""


CHECKPOINT = msgspec.json.encode(
    {"Data": {"PodDeviceEntries": [{"ResourceName": RESOURCE, "DeviceIDs": {"0": ["n0-s0"]}}]}, "Checksum": 1}
)


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
    return Inventory(
        root,
        firmware,
        pool=Pool(),
        checkpoint=root / "checkpoint",
        resync_seconds=0.01,
        log=written.log,
        deadline_seconds=0.1,
    )


async def test_a_look_tells_all_who_follow(inventory: Inventory, root: Path) -> None:
    """A look comes back with the machine and sets the cell."""
    before = inventory.latest.value
    now = await inventory.look()
    expected = await asyncio.to_thread(seen, root)
    assert (None, expected, Look(machine=expected, held=())) == (before, now, inventory.latest.value)


async def test_hardware_that_hangs_is_an_error_within_the_deadline(
    inventory: Inventory, firmware: _Firmware
) -> None:
    """A device whose files hang costs the deadline and no more, and what was known is kept (B-DP-42)."""
    known = Look(machine=machine(), held=())
    inventory.latest.set(known)
    firmware.answers.clear()
    loop = asyncio.get_running_loop()
    started = loop.time()
    with pytest.raises(LookError, match=r"sysfs did not answer within 0\.1 s"):
        await inventory.look()
    assert loop.time() - started < _LONGEST_HANG_SECONDS / 2
    assert known == inventory.latest.value
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
    found = await inventory.latest.until(lambda value: value is not None)
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


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(None, (), id="no-checkpoint-yet"),
        pytest.param(CHECKPOINT, (HeldId(id="n0-s0", numa_nodes=(0,)),), id="one-held"),
        pytest.param(b"{", None, id="torn"),
    ],
)
async def test_a_look_tells_what_is_held(
    inventory: Inventory, root: Path, content: bytes | None, expected: object
) -> None:
    """What containers hold comes from the kubelet's checkpoint; where that makes no sense nobody can tell."""
    if content is not None:
        await asyncio.to_thread((root / "checkpoint").write_bytes, content)
    await inventory.look()
    assert inventory.latest.value is not None
    assert expected == inventory.latest.value.held


async def test_a_tree_that_nobody_understands_ends_nothing(root: Path, written: LogLines) -> None:
    """A bug met while looking is told with its trace, and is a look that failed."""

    class Buggy(StandInNodes):
        def read(self, path: Path) -> DeviceNode | None:
            raise ZeroDivisionError(path.name)

    inventory = Inventory(
        root, Buggy(), pool=Pool(), checkpoint=root / "checkpoint", resync_seconds=1, log=written.log
    )
    with pytest.raises(LookError, match="ZeroDivisionError"):
        await inventory.look()
    assert "Traceback" in written.lines[0]["exception"]
