import asyncio

import pytest

from railside_runtime.debounce import LONGEST_SECONDS, Debounce

_PAUSE = 0.05


async def _waited(debounce: Debounce, seconds: float = 10) -> tuple[bool, float]:
    """Whether signs came, and how long it took, in seconds of the loop."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    heard = await debounce.calm_within(seconds)
    return heard, round(loop.time() - started, 2)


@pytest.mark.looptime
async def test_signs_are_taken_together_at_their_first_pause() -> None:
    """Signs that follow each other closely are one, which is told a pause after the last."""
    debounce, loop = Debounce(_PAUSE), asyncio.get_running_loop()
    for at in (1.0, 1.02, 1.06):
        loop.call_later(at, debounce.hear)
    assert await _waited(debounce) == (True, 1.11)
    assert await _waited(debounce, 1) == (False, 1)


@pytest.mark.looptime
async def test_a_storm_does_not_postpone_for_ever() -> None:
    """Signs without a pause are told after a fifth of a second all the same, again and again."""
    debounce, loop = Debounce(_PAUSE), asyncio.get_running_loop()
    for number in range(1000):
        loop.call_later(number / 100, debounce.hear)
    assert await _waited(debounce) == (True, LONGEST_SECONDS)
    assert await _waited(debounce) == (True, round(LONGEST_SECONDS + 0.01, 2))


@pytest.mark.looptime
async def test_a_sign_that_came_before_is_not_lost() -> None:
    """What came while nobody waited is told to the next who waits, once, and without another pause."""
    debounce = Debounce(_PAUSE)
    debounce.hear()
    await _waited(Debounce(_PAUSE), 1)
    assert await _waited(debounce) == (True, 0)
    assert await _waited(debounce, 2) == (False, 2)


@pytest.mark.looptime
async def test_a_longer_pause_is_waited_for() -> None:
    """A pause that is set longer than the usual limit is kept."""
    debounce = Debounce(1)
    debounce.hear()
    assert await _waited(debounce) == (True, 1)
