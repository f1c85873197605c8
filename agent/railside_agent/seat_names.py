"""How seats are called, and which zone a name stands for. It must not know which seats there are.

A name says nothing of an HCA and is the same in both modes: ``n0-s3`` is the fourth seat of NUMA node 0,
``any-s0`` the first that fits everywhere.
"""

import functools
import itertools
import re
from collections.abc import Container, Iterator
from typing import Final

ANYWHERE: Final = "any"
"""The zone of HCAs that no NUMA node claims, and of all HCAs where the list carries no hints."""

_REMEMBERED: Final = 1 << 14

_SEAT: Final = re.compile(r"(?P<zone>any|n\d{1,5})-s(?P<number>\d{1,6})")


def zone_of_node(numa_node: int | None) -> str:
    """The zone of a NUMA node: ``n0``, or ``any`` for none."""
    return ANYWHERE if numa_node is None else f"n{numa_node}"


@functools.lru_cache(maxsize=_REMEMBERED)
def _parsed(name: str) -> tuple[str, int] | None:
    """Zone and number; None for what is no seat's name. A list of a thousand seats is gone through many times."""
    found = _SEAT.fullmatch(name)
    return (found["zone"], int(found["number"])) if found else None


def is_ours(name: str) -> bool:
    """Whether ``name`` is a seat's: other ids were dealt by another plugin or an older agent."""
    return _parsed(name) is not None


def zone_of(name: str) -> str:
    """The zone that a seat's name stands for; ``any`` for what is no seat's name."""
    found = _parsed(name)
    return found[0] if found else ANYWHERE


def node_of(zone: str) -> tuple[int, ...]:
    """The NUMA node of a zone; none for ``any``."""
    return () if zone == ANYWHERE else (int(zone.removeprefix("n")),)


def order(name: str) -> tuple[str, int, str]:
    """Sorts seats by zone and number, and what is no seat's name behind them."""
    found = _parsed(name)
    return (*found, "") if found else ("~", 0, name)


def unused(zone: str, taken: Container[str]) -> Iterator[str]:
    """Names in ``zone`` that are not ``taken``, lowest first."""
    return (name for number in itertools.count() if (name := f"{zone}-s{number}") not in taken)
