"""Pods that were refused of late, and what they want. It must not decide whether they fit by now."""

from collections.abc import Iterator
from typing import Final

from railside_extender.demands import Demand

PATIENCE_SECONDS: Final = 60.0
"""After that the scheduler has tried again by itself, or the pod is another instance's, which refused it later."""


class Waiting:
    """Who waits."""

    def __init__(self) -> None:
        """Nobody."""
        self._refused: dict[str, tuple[Demand, float]] = {}

    def refused(self, uid: str, wanted: Demand, now: float) -> None:
        """A pod found no node."""
        self._refused.pop(uid, None)
        self._refused[uid] = wanted, now

    def served(self, uid: str) -> None:
        """It found one, or is gone."""
        self._refused.pop(uid, None)

    def demands(self, now: float) -> Iterator[Demand]:
        """What pods want that were refused less than a minute ago, each once."""
        for uid in [uid for uid, (_, since) in self._refused.items() if now - since >= PATIENCE_SECONDS]:
            del self._refused[uid]
        yield from dict.fromkeys(wanted for wanted, _ in self._refused.values())
