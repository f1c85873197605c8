"""What the real kubelet leaves to chance, as its Go maps and sets are walked: here by one seeded source.

It answers for orders. It must not know what is ordered.
"""

import random
from collections.abc import Iterable
from typing import Any, TypeVar

Item = TypeVar("Item", bound=Any)


def shuffled(items: Iterable[Item], rng: random.Random) -> list[Item]:
    """The items in an order that only ``rng`` knows, whatever order they came in."""
    return rng.sample(ordered, len(ordered)) if len(ordered := sorted(items)) > 1 else ordered
