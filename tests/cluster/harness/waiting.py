"""Answers for waiting on a state with a deadline; the only place in the cluster tests that sleeps.

It must not know what is waited for.
"""

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

POLL_S = 0.05


def until(condition: Callable[[], bool], what: str, timeout_s: float = 20) -> None:
    """Return as soon as ``condition`` holds; ``TimeoutError`` names ``what`` was awaited."""
    until_value(lambda: condition() or None, what, timeout_s)


def until_value(
    look: Callable[[], Value | None], what: str, timeout_s: float = 20, *, every_s: float = POLL_S
) -> Value:
    """The first value that ``look`` gives, asked ``every_s``; ``TimeoutError`` names ``what`` was awaited."""
    deadline = time.monotonic() + timeout_s
    while (value := look()) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {timeout_s:g} s still waiting for: {what}")
        pause(every_s)
    return value


def pause(seconds: float = POLL_S) -> None:
    """Lets the time between two looks pass, for those who wait otherwise than here."""
    time.sleep(seconds)
