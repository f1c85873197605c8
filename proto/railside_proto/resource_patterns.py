"""Patterns of resource names, such as ``nvidia.com/mig-*``. It must not know what a resource is good for."""

import fnmatch
import functools
from typing import Final

_REMEMBERED: Final = 1 << 10


@functools.lru_cache(maxsize=_REMEMBERED)
def matching(resource: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of ``patterns`` is the name ``resource``. It is asked for each of many, and there are few."""
    return any(fnmatch.fnmatchcase(resource, pattern) for pattern in patterns)
