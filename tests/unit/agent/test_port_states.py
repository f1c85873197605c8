import asyncio
import contextlib
import threading
from collections import defaultdict
from collections.abc import AsyncIterator

import pytest
from tests.unit.builders import LogLines
from tests.unit.running import running

from railside_agent.port_states import PortAnswers, PortStates
from railside_agent.raw_machine import RawPortState

_LONGEST_HANG_SECONDS = 5
"""So that a test that fails does not hang the suite."""

ACTIVE = (RawPortState(name="1", state="4: ACTIVE"),)
DOWN = (RawPortState(name="1", state="1: DOWN"),)


class _Cards:
    """Answer at once, or only when they are released."""

    def __init__(self) -> None:
        self.ports = defaultdict[str, tuple[RawPortState, ...]](lambda: ACTIVE)
        self.hanging: dict[str, threading.Event] = {}
        self.asked: list[str] = []
        self.error: Exception | None = None

    def read(self, device: str) -> tuple[RawPortState, ...]:
        self.asked.append(device)
        if device in self.hanging:
            self.hanging[device].wait(_LONGEST_HANG_SECONDS)
        if self.error is not None:
            raise self.error
        return self.ports[device]

    def release(self, device: str) -> None:
        self.hanging.pop(device).set()


class _Threads:
    """Those of cards, without those that other tests have left."""

    def __init__(self) -> None:
        self._before = set(threading.enumerate())

    def names(self) -> list[str]:
        new = set(threading.enumerate()) - self._before
        return sorted(one.name for one in new if one.name.startswith("ports-"))

    async def until(self, *names: str) -> None:
        await asyncio.to_thread(self._wait_for, list(names))

    def _wait_for(self, names: list[str]) -> None:
        for _ in range(500):
            if self.names() == names:
                return
            threading.Event().wait(0.01)
        assert self.names() == names


@contextlib.asynccontextmanager
async def _following(states: PortStates, *devices: str) -> AsyncIterator[None]:
    async with running(states), asyncio.timeout(_LONGEST_HANG_SECONDS):
        states.follow(devices)
        yield


@pytest.fixture
def threads() -> _Threads:
    return _Threads()


@pytest.fixture
def cards() -> _Cards:
    return _Cards()


@pytest.fixture
def states(cards: _Cards, written: LogLines) -> PortStates:
    return PortStates(cards.read, written.log, poll_seconds=0.01, silent_seconds=0.05)


async def _until(states: PortStates, expected: PortAnswers) -> None:
    await states.latest.until(lambda answers: answers == expected)


async def test_each_device_is_asked_again_and_again(cards: _Cards, states: PortStates) -> None:
    """A port that goes down is seen without any message of the kernel (B-DP-37)."""
    async with _following(states, "mlx5_0", "mlx5_1"):
        await _until(states, {"mlx5_0": ACTIVE, "mlx5_1": ACTIVE})
        cards.ports["mlx5_1"] = DOWN
        await _until(states, {"mlx5_0": ACTIVE, "mlx5_1": DOWN})


async def test_a_card_that_hangs_is_silent_and_holds_up_no_other(cards: _Cards, states: PortStates) -> None:
    """A hanging card's last answer becomes None, others are asked on, and it is believed again when it answers."""
    async with _following(states, "mlx5_0", "mlx5_1"):
        await states.ask_all()
        cards.hanging["mlx5_0"] = threading.Event()
        await _until(states, {"mlx5_0": None, "mlx5_1": ACTIVE})
        cards.ports["mlx5_1"] = DOWN
        await _until(states, {"mlx5_0": None, "mlx5_1": DOWN})
        cards.release("mlx5_0")
        await _until(states, {"mlx5_0": ACTIVE, "mlx5_1": DOWN})


async def test_a_card_that_hangs_from_the_first_is_silent(cards: _Cards, states: PortStates) -> None:
    """Whoever asks all waits for a card that hangs no longer than it may take, once, and for the others."""
    cards.hanging["mlx5_0"] = threading.Event()
    async with _following(states, "mlx5_0", "mlx5_1"):
        assert await states.ask_all() == {"mlx5_0": None, "mlx5_1": ACTIVE}
        # It is known to hang by now, and not waited for.
        cards.ports["mlx5_1"] = DOWN
        assert await states.ask_all() == {"mlx5_0": None, "mlx5_1": DOWN}
        cards.release("mlx5_0")


async def test_a_card_that_hangs_is_asked_no_second_question(
    cards: _Cards, written: LogLines, threads: _Threads
) -> None:
    """However long a card hangs and however often it would be its turn, it has one thread and one question."""
    states = PortStates(cards.read, written.log, silent_seconds=0.05)
    cards.hanging["mlx5_0"] = threading.Event()
    states.follow(("mlx5_0",))
    for _ in range(3):
        assert await states.ask_all() == {"mlx5_0": None}
        states.ask_now("mlx5_0")
    assert threads.names() == ["ports-mlx5_0"]
    cards.release("mlx5_0")
    await _until(states, {"mlx5_0": ACTIVE})
    assert await states.ask_all() == {"mlx5_0": ACTIVE}
    assert len(cards.asked) == 2
    states.follow(())


async def test_a_device_that_is_gone_leaves_neither_answer_nor_thread(
    cards: _Cards, states: PortStates, threads: _Threads
) -> None:
    """Threads are those of the devices that are there and of those that hang: these end when they return."""
    async with _following(states, "mlx5_0", "mlx5_1"):
        await states.ask_all()
        hanging = cards.hanging["mlx5_0"] = threading.Event()
        await _until(states, {"mlx5_0": None, "mlx5_1": ACTIVE})
        states.follow(("mlx5_2",))
        assert states.latest.value == {}
        await _until(states, {"mlx5_2": ACTIVE})
        await threads.until("ports-mlx5_0", "ports-mlx5_2")
        hanging.set()
        await threads.until("ports-mlx5_2")
        assert states.latest.value == {"mlx5_2": ACTIVE}
    await threads.until()


async def test_a_device_that_comes_back_while_its_old_self_hangs_is_asked_afresh(
    cards: _Cards, states: PortStates, threads: _Threads
) -> None:
    """A device of the same name is another card: it waits for nothing that its predecessor owes."""
    cards.hanging["mlx5_0"] = threading.Event()
    async with _following(states, "mlx5_0"):
        await _until(states, {"mlx5_0": None})
        states.follow(())
        await _until(states, {})
        await threads.until("ports-mlx5_0")
        hanging = cards.hanging.pop("mlx5_0")
        states.follow(("mlx5_0",))
        await _until(states, {"mlx5_0": ACTIVE})
        hanging.set()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        pytest.param(OSError("too many open files"), (), id="no-descriptor"),
        pytest.param(ZeroDivisionError(), ("this is a bug: the ports could not be read",), id="a-bug"),
    ],
)
async def test_who_cannot_ask_hears_silence(
    cards: _Cards, states: PortStates, written: LogLines, error: Exception, told: tuple[str, ...]
) -> None:
    """Without a descriptor to ask with, or by a bug that is told, a port is unknown and nothing ends."""
    cards.error = error
    async with _following(states, "mlx5_0", "mlx5_1"):
        await _until(states, {"mlx5_0": None, "mlx5_1": None})
        cards.error = None
        await _until(states, {"mlx5_0": ACTIVE, "mlx5_1": ACTIVE})
    assert set(written.events) == set(told)


async def test_who_asks_gets_what_is_true_then(cards: _Cards, written: LogLines) -> None:
    """An answer to whoever asks is never one to an earlier question, and needs nobody who polls."""
    states = PortStates(cards.read, written.log)
    states.follow(("mlx5_0",))
    for ports in (ACTIVE, DOWN, ACTIVE):
        cards.ports["mlx5_0"] = ports
        assert await states.ask_all() == {"mlx5_0": ports}
    states.follow(())


async def test_a_device_can_be_asked_before_its_turn(cards: _Cards, written: LogLines) -> None:
    """Who knows that a port has changed need not wait for the next turn; an unknown device is nobody's."""
    states = PortStates(cards.read, written.log, poll_seconds=3600)
    async with _following(states, "mlx5_0"):
        await states.ask_all()
        cards.ports["mlx5_0"] = DOWN
        states.ask_now("mlx5_9")
        states.ask_now("mlx5_0")
        await _until(states, {"mlx5_0": DOWN})
