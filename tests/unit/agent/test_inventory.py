import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from tests.unit.builders import ONE_HCA, TWO_NUMA, LogLines, machine, seen, tree

from railside_agent.inventory import SETTLE_SECONDS, Inventory, Look, LookError
from railside_agent.port_states import PortStates
from railside_agent.raw_machine import RawMachine, RawPortState
from railside_agent.sysfs import read_port_states
from railside_proto.machine import DeviceNode, Machine, PortState
from railside_sim.stand_in_nodes import StandInNodes

_LONGEST_HANG_SECONDS = 5
"""So that a test that fails does not hang the suite."""

_RESYNC_SECONDS = 3600.0
_OTHER_HCA = """
hca pci0000:97/0000:97:01.0/0000:98:00.0 numa=1 name=mlx5_1 uverbs=1 guid=5c25:7303:00a1:4c11 type=MT4129
port mlx5_1 1 link=InfiniBand state=ACTIVE lid=0x1b umad=1
"""


class _Kernel(StandInNodes):
    """Answers at once, or only when it is released; counts how often it was looked at."""

    def __init__(self) -> None:
        self.looks = 0
        self.answers = threading.Event()
        self.answers.set()

    def read(self, path: Path) -> DeviceNode | None:
        self.looks += path.name == "issm0"
        self.answers.wait(_LONGEST_HANG_SECONDS)
        return super().read(path)


class _Cards:
    """What the tree says, or silence for the device that hangs."""

    def __init__(self, root: Path) -> None:
        self._read = partial(read_port_states, root)
        self.hanging: str | None = None
        self.asked = 0
        self.released = threading.Event()

    def read(self, device: str) -> tuple[RawPortState, ...]:
        self.asked += 1
        if device == self.hanging:
            self.released.wait(_LONGEST_HANG_SECONDS)
        return self._read(device)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tree(TWO_NUMA + ONE_HCA, tmp_path)


@pytest.fixture
def kernel() -> _Kernel:
    return _Kernel()


@pytest.fixture
def cards(root: Path) -> _Cards:
    return _Cards(root)


@pytest.fixture
def ports(cards: _Cards, written: LogLines) -> PortStates:
    return PortStates(cards.read, written.log, poll_seconds=0.02, silent_seconds=0.1)


@pytest.fixture
def inventory(root: Path, kernel: _Kernel, ports: PortStates, written: LogLines) -> Inventory:
    return Inventory(
        root,
        kernel,
        ports=ports,
        resync_seconds=_RESYNC_SECONDS,
        log=written.log,
        debounce_seconds=0.01,
        deadline_seconds=0.5,
    )


@contextlib.asynccontextmanager
async def _running(inventory: Inventory, ports: PortStates) -> AsyncIterator[Look]:
    """Run both; gives the first look."""
    tasks = [asyncio.create_task(one) for one in (inventory.run(), ports.run())]
    try:
        async with asyncio.timeout(_LONGEST_HANG_SECONDS):
            first = await inventory.latest.until(lambda look: look is not None)
            assert first is not None
            yield first
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _names(look: Look | None) -> list[str]:
    return [hca.name for hca in look.machine.hcas] if look else []


def _state(look: Look | None, index: int = 0) -> PortState | None:
    return look.machine.hcas[index].ports[0].state if look else None


def _add(root: Path) -> None:
    tree(TWO_NUMA + _OTHER_HCA, root)


async def _set_state(root: Path, text: str, name: str = "mlx5_0") -> None:
    path = root / "sys/class/infiniband" / name / "ports/1/state"
    await asyncio.to_thread(path.write_text, f"{text}\n")


async def test_a_look_tells_all_who_follow(inventory: Inventory, root: Path) -> None:
    """A look comes back with the machine and sets the cell."""
    before = inventory.latest.value
    now = await inventory.look()
    expected = await asyncio.to_thread(seen, root)
    after = inventory.latest.value
    assert after is not None
    assert (None, expected, expected) == (before, now, after.machine)
    assert [device.name for device in after.raw.rdma_devices] == ["mlx5_0"]


async def test_what_a_look_costs_is_counted(inventory: Inventory) -> None:
    """Looks and the time that they took add up, and each look says when the tree was read."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await inventory.look()
    between = loop.time()
    await inventory.look()
    look, costs = inventory.latest.value, inventory.costs
    assert look is not None
    assert between <= look.at <= loop.time()
    assert (costs.looks, costs.merges, costs.failures) == (2, 0, 0)
    assert 0 < costs.seconds <= loop.time() - began


async def test_a_kernel_that_hangs_is_an_error_within_the_deadline(inventory: Inventory, kernel: _Kernel) -> None:
    """A tree that hangs costs the deadline and no more, and what was known is kept (B-DP-42)."""
    known = Look(machine=machine(), raw=RawMachine(), at=0)
    inventory.latest.set(known)
    kernel.answers.clear()
    loop = asyncio.get_running_loop()
    started = loop.time()
    with pytest.raises(LookError, match=r"sysfs did not answer within 0\.5 s"):
        await inventory.look()
    assert loop.time() - started < _LONGEST_HANG_SECONDS / 2
    assert (known, 1) == (inventory.latest.value, inventory.costs.failures)
    kernel.answers.set()


async def test_a_kernel_that_hangs_takes_one_thread(inventory: Inventory, kernel: _Kernel) -> None:
    """However often it is looked at, a hanging tree leaves threads for everything else that must go on."""
    kernel.answers.clear()
    before = threading.active_count()
    for _ in range(5):
        with pytest.raises(LookError):
            await inventory.look()
    assert threading.active_count() - before <= 1
    kernel.answers.set()


async def test_looks_go_on_after_one_that_hung(inventory: Inventory, kernel: _Kernel, written: LogLines) -> None:
    """When the kernel answers again so does the inventory; who stopped waiting has stopped nothing (B-DP-38)."""
    kernel.answers.clear()
    hanging = asyncio.create_task(inventory.look())
    await asyncio.wait([hanging], timeout=0.01)
    hanging.cancel()
    await asyncio.wait([hanging])
    kernel.answers.set()
    now = await inventory.look()
    assert [hca.name for hca in now.hcas] == ["mlx5_0"]
    assert written.events == []


async def test_who_asks_during_a_look_gets_one_that_began_later(inventory: Inventory, kernel: _Kernel) -> None:
    """Any number who ask during a look share the one behind it, whoever of them stops waiting."""
    await inventory.look()
    kernel.looks = 0
    kernel.answers.clear()
    first = asyncio.create_task(inventory.look())
    while not kernel.looks:
        await asyncio.wait([first], timeout=0.001)
    later = [asyncio.create_task(inventory.look()) for _ in range(10)]
    await asyncio.wait(later, timeout=0.01)
    assert kernel.looks == 1
    later.pop(0).cancel()
    kernel.answers.set()
    await asyncio.gather(first, *later)
    assert (kernel.looks, inventory.costs.looks) == (2, 3)


async def test_there_are_never_two_looks_at_once(
    root: Path, kernel: _Kernel, cards: _Cards, written: LogLines
) -> None:
    """While a look waits for a card, no other reads the tree."""
    cards.hanging = "mlx5_0"
    ports = PortStates(cards.read, written.log, silent_seconds=_LONGEST_HANG_SECONDS)
    inventory = Inventory(root, kernel, ports=ports, resync_seconds=1, log=written.log)
    first = asyncio.create_task(inventory.look())
    while not cards.asked:
        await asyncio.wait([first], timeout=0.001)
    second = asyncio.create_task(inventory.look())
    await asyncio.wait([first, second], timeout=0.05)
    assert kernel.looks == 1
    cards.hanging = None
    cards.released.set()
    await asyncio.gather(first, second)
    assert kernel.looks == 2


async def test_a_card_that_hangs_holds_up_no_look_of_others(
    inventory: Inventory, ports: PortStates, cards: _Cards, root: Path
) -> None:
    """A new card without an answer is waited for a moment, then it is silent, and believed when it answers."""
    await asyncio.to_thread(_add, root)
    cards.hanging = "mlx5_0"
    async with _running(inventory, ports) as first:
        assert first.raw.rdma_devices[0].port_states is None
        assert _state(first, 1) is PortState.ACTIVE
        cards.hanging = None
        cards.released.set()
        await inventory.latest.until(lambda look: _state(look) is PortState.ACTIVE)


async def test_a_change_of_a_port_is_seen_without_reading_the_tree(
    inventory: Inventory, ports: PortStates, kernel: _Kernel, root: Path
) -> None:
    """A port that goes down, of which the kernel says nothing, changes the machine at the next poll (B-DP-37)."""
    async with _running(inventory, ports) as first:
        assert _state(first) is PortState.ACTIVE
        looks = kernel.looks
        await _set_state(root, "1: DOWN")
        latest = await inventory.latest.until(lambda look: _state(look) is PortState.DOWN)
        assert latest is not None
        assert (latest.at, kernel.looks) == (first.at, looks)
    assert inventory.costs.merges >= 1


async def test_signs_make_one_look_and_one_behind_it(
    inventory: Inventory, ports: PortStates, kernel: _Kernel, root: Path
) -> None:
    """A new HCA is seen at once; signs that come together cost one look, and one when udev is done (B-DP-15)."""
    async with _running(inventory, ports) as first:
        assert _names(first) == ["mlx5_0"]
        looks, loop = kernel.looks, asyncio.get_running_loop()
        started = loop.time()
        await asyncio.to_thread(_add, root)
        for _ in range(50):
            inventory.look_again()
        second = await inventory.latest.until(lambda look: _names(look) == ["mlx5_0", "mlx5_1"])
        assert kernel.looks == looks + 1
        assert loop.time() - started < SETTLE_SECONDS
        await inventory.latest.until(lambda look: look is not second)
        assert loop.time() - started > SETTLE_SECONDS
        assert kernel.looks == looks + 2


@pytest.mark.parametrize(
    ("resync", "expected"),
    [
        pytest.param(0.05, ["mlx5_0", "mlx5_1"], id="resync"),
        pytest.param(_RESYNC_SECONDS, ["mlx5_0"], id="no-resync"),
    ],
)
async def test_a_change_that_nobody_told_is_seen_at_the_resync(
    root: Path, ports: PortStates, written: LogLines, resync: float, expected: list[str]
) -> None:
    """Where no message comes, as of a device in another network namespace, the resync sees it (B-DP-44)."""
    inventory = Inventory(root, StandInNodes(), ports=ports, resync_seconds=resync, log=written.log)
    async with _running(inventory, ports):
        await asyncio.to_thread(_add, root)
        looks = inventory.latest.until(lambda look: _names(look) == ["mlx5_0", "mlx5_1"])
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(looks, 0.5)
        assert _names(inventory.latest.value) == expected


async def test_a_look_that_fails_is_told_once_and_tried_again(
    root: Path, ports: PortStates, written: LogLines
) -> None:
    """The same failure again and again is one line; when it is over the inventory goes on as before."""
    understand = _FailsFirst(OSError("no descriptor"), times=3)
    inventory = Inventory(
        root, StandInNodes(), ports=ports, resync_seconds=0.01, log=written.log, understand=understand
    )
    async with _running(inventory, ports):
        assert (written.events, inventory.problem.value) == (["the machine could not be looked at"], None)
        assert inventory.costs.failures == 3


async def test_a_tree_that_nobody_understands_ends_nothing(
    root: Path, ports: PortStates, written: LogLines
) -> None:
    """A bug met while looking is told with its trace, and is a look that failed."""
    understand = _FailsFirst(ZeroDivisionError(), times=1)
    inventory = Inventory(
        root, StandInNodes(), ports=ports, resync_seconds=1, log=written.log, understand=understand
    )
    with pytest.raises(LookError, match="ZeroDivisionError"):
        await inventory.look()
    assert "Traceback" in written.lines[0]["exception"]


class _FailsFirst:
    """Understands nothing for the first few times."""

    def __init__(self, error: Exception, times: int) -> None:
        self._error = error
        self._times = times

    def __call__(self, _raw: RawMachine) -> Machine:
        self._times -= 1
        if self._times >= 0:
            raise self._error
        return machine()
