"""Pauses between tries, each a little off: the agents of many nodes must not march in step.

It must not wait itself, nor know what is tried.
"""

import random
from collections.abc import Callable


def jittered(seconds: float) -> float:
    """From half of ``seconds`` to half as much again."""
    return seconds * random.uniform(0.5, 1.5)  # noqa: S311 -- not a secret


class Pauses:
    """Ever longer ones, each twice the one before."""

    def __init__(
        self, first_seconds: float, longest_seconds: float, *, jitter: Callable[[float], float] = jittered
    ) -> None:
        """Begin with ``first_seconds``, and stay at ``longest_seconds``; both before the ``jitter``."""
        self._jitter = jitter
        self._first = min(first_seconds, longest_seconds)
        self._longest = longest_seconds
        self._next = self._first

    def begin_anew(self) -> None:
        """Make the next pause the first one again."""
        self._next = self._first

    def next(self) -> float:
        """How many seconds to wait this time."""
        pause, self._next = self._next, min(2 * self._next, self._longest)
        return self._jitter(pause)
