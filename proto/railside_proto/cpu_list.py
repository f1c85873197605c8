"""Which CPUs a list in the kernel's form names, ``0-55,112-167``. It must not know whose they are."""

import re
from typing import Final

_MOST: Final = 1 << 16
"""CPUs of one list that are told apart; no kernel has as many."""

_LIST: Final = re.compile(r"(?:\d{1,6}(?:-\d{1,6})?(?:,\d{1,6}(?:-\d{1,6})?)*)?")


def cpu_count(text: str) -> int | None:
    """The number of CPUs in ``text``; 0 for an empty one, None for what is no such list."""
    if not _LIST.fullmatch(text):
        return None
    ranges = (part.partition("-") for part in text.split(",") if part)
    return sum(max(0, int(high or low) - int(low) + 1) for low, _, high in ranges)


def cpus(text: str) -> frozenset[int]:
    """The CPUs in ``text``; none for what is no such list, or one of absurdly many."""
    if not 0 < (cpu_count(text) or 0) <= _MOST:
        return frozenset()
    ranges = (part.partition("-") for part in text.split(","))
    return frozenset(cpu for low, _, high in ranges for cpu in range(int(low), int(high or low) + 1))
