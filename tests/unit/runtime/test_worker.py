import asyncio
import threading
from functools import partial

import pytest

from railside_runtime.worker import Worker


async def test_what_a_call_returns_comes_back() -> None:
    """A call runs in the worker's own thread, and its result is handed over."""
    name = await Worker("look").run(lambda: threading.current_thread().name, 5)
    assert name == "look"


async def test_what_a_call_raises_is_raised() -> None:
    """An error comes to whoever waits for the call, and the worker goes on."""
    worker = Worker("look")
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 // 0, 5)
    assert await worker.run(lambda: 1, 5) == 1


async def test_calls_take_turns() -> None:
    """Calls run in the order in which they came, one at a time."""
    worker = Worker("look")
    done: list[int] = []
    await asyncio.gather(*(worker.run(partial(done.append, number), 5) for number in range(50)))
    assert list(range(50)) == done


async def test_what_must_be_done_is_done_however_late() -> None:
    """A call that must not be dropped runs when the worker comes to it, though nobody waits any more."""
    worker = Worker("look")
    release = threading.Event()
    done: list[str] = []
    for call in (lambda: release.wait(5), partial(done.append, "withdrawn")):
        with pytest.raises(TimeoutError):
            await worker.run(call, 0.01, however_late=True)
    release.set()
    await worker.run(partial(done.append, "later"), 5)
    assert done == ["withdrawn", "later"]


async def test_a_call_that_hangs_costs_its_deadline_and_delays_what_waits_behind_it() -> None:
    """Each caller has its own deadline; what had not begun by then is dropped, what has begun goes on."""
    worker = Worker("look")
    release = threading.Event()
    done: list[str] = []

    def hang() -> None:
        release.wait(5)
        done.append("hung")

    with pytest.raises(TimeoutError):
        await worker.run(hang, 0.01)
    with pytest.raises(TimeoutError):
        await worker.run(lambda: done.append("dropped"), 0.01)
    release.set()
    await worker.run(lambda: done.append("later"), 5)
    assert done == ["hung", "later"]


async def test_an_ended_worker_finishes_what_it_has_and_leaves_no_thread() -> None:
    """A worker that is ended while a call hangs ends when that call returns, and takes no more."""
    worker = Worker("ending")
    release = threading.Event()
    hanging = asyncio.create_task(worker.run(lambda: release.wait(5), 5))
    await asyncio.wait([hanging], timeout=0.01)
    thread = next(one for one in threading.enumerate() if one.name == "ending")
    worker.end()
    worker.end()
    with pytest.raises(RuntimeError):
        await worker.run(lambda: None, 5)
    assert thread.is_alive()
    release.set()
    await hanging
    await asyncio.to_thread(thread.join, 5)
    assert not thread.is_alive()
