"""What the real kubelet leaves to chance, as its Go maps and sets are walked.

It answers for orders: by a seeded source, or by whoever knows what the real one did. It must not know what an
order leads to.
"""

import random
from collections.abc import Iterable
from typing import NamedTuple, Protocol


class Turn(NamedTuple):
    """Whom the kubelet serves; ``resource`` is empty while it walks the container's resources themselves."""

    pod: str
    """The pod's key."""
    container: str
    resource: str = ""


class Chance(Protocol):
    """Puts in an order of its own what Go would walk in any."""

    def order(self, items: Iterable[str], turn: Turn) -> list[str]:
        """All items, each once, whatever order they came in."""


class Luck:
    """Chance by ``rng`` alone."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def order(self, items: Iterable[str], turn: Turn) -> list[str]:
        """The items in an order that only the source knows."""
        del turn  # it is nobody's in particular
        return self._rng.sample(ordered, len(ordered)) if len(ordered := sorted(items)) > 1 else ordered
