"""Which ids a container gets: what may be used again first, then the aligned, the plugin's wish among them.

It answers for the order of the choice (pkg/kubelet/cm/devicemanager: devicesToAllocate, filterByAffinity). It must
not ask a plugin itself, nor keep books.
"""

from collections.abc import Callable, Collection

import msgspec

from railside_sim.device import ListedDevice
from railside_sim.hints import Mask

Ids = frozenset[str]

Order = Callable[[Ids], list[str]]
"""In which the kubelet walks ids among which it does not choose."""


class Affinity(msgspec.Struct, frozen=True, kw_only=True):
    """The available ids, split: in the NUMA nodes of the hint, in others, and in no particular one."""

    aligned: Ids
    unaligned: Ids
    anywhere: Ids


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A GetPreferredAllocation to be made, and the ids of its answer that will be taken."""

    available: Ids
    must_include: Ids
    size: int
    usable: Ids


def split(available: Collection[ListedDevice], near: Mask | None) -> Affinity:
    """By the hint ``near``; None, from a list without topology or a policy without hints, splits nothing."""
    every = frozenset(device.id for device in available)
    if near is None:
        return Affinity(aligned=frozenset(), unaligned=frozenset(), anywhere=every)
    aligned = frozenset(device.id for device in available if _nodes(device) & near)
    anywhere = frozenset(device.id for device in available if not _nodes(device))
    return Affinity(aligned=aligned, unaligned=every - aligned - anywhere, anywhere=anywhere)


def _nodes(device: ListedDevice) -> Mask:
    """A node -1 is the kubelet's own word for none."""
    return (device.numa or frozenset()) - {-1}


class Choice:
    """Ids taken for one container and resource, ``size`` at the end; by ``order`` wherever there is a choice."""

    def __init__(self, size: int, order: Order) -> None:
        self._size = size
        self._order = order
        self._taken: dict[str, None] = {}

    @property
    def taken(self) -> Ids:
        """So far."""
        return frozenset(self._taken)

    @property
    def missing(self) -> int:
        """How many are still to be taken."""
        return self._size - len(self._taken)

    def take(self, ids: Ids) -> None:
        """Takes of ``ids`` as many as are missing."""
        for device in self._order(ids - self.taken)[: self.missing]:
            self._taken[device] = None

    def wish(self, available: Ids, affinity: Affinity) -> Wish | None:
        """Takes what leaves no choice; says what to ask the plugin where there is one."""
        if self.missing < len(affinity.aligned):
            return self._wish(affinity.aligned)
        self.take(affinity.aligned)
        return self._wish(available) if self.missing else None

    def fill(self, affinity: Affinity) -> None:
        """Takes what the plugin left open, the nearest first."""
        for tier in (affinity.aligned, affinity.unaligned, affinity.anywhere):
            self.take(tier)

    def _wish(self, usable: Ids) -> Wish:
        return Wish(available=usable | self.taken, must_include=self.taken, size=self._size, usable=usable)
