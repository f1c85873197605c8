"""What was offered to pods that are seen on no node yet. It must not know pods, nor what a hold leaves free."""

from collections import defaultdict
from collections.abc import Callable, Container, Mapping
from typing import Final

import msgspec

from railside_proto.podspec import PodAsk

UNSEEN_SECONDS: Final = 30.0
"""Within that the watch shows a pod that the scheduler has asked about, if there is such a pod."""


class Hold(msgspec.Struct, frozen=True):
    """A pod that was offered some nodes, and is on none yet as far as anybody has seen."""

    ask: PodAsk
    nodes: frozenset[str]
    since: float


class Holds:
    """All of them; ``moved`` is told each node on which they change."""

    def __init__(self, moved: Callable[[str], None]) -> None:
        """Nothing was offered yet."""
        self._moved = moved
        self._holds: dict[str, Hold] = {}
        self._on: dict[str, dict[str, Hold]] = defaultdict(dict)

    @property
    def by_pod(self) -> Mapping[str, Hold]:
        """By the pod's UID."""
        return self._holds

    def on(self, node: str) -> Mapping[str, Hold]:
        """Those of ``node``, by the pod's UID."""
        return self._on.get(node, {})

    def put(self, uid: str, hold: Hold) -> None:
        """Remember that a pod was offered nodes; what it was offered before counts no longer."""
        self.drop(uid)
        self._holds[uid] = hold
        for node in hold.nodes:
            self._on[node][uid] = hold
            self._moved(node)

    def drop(self, uid: str) -> None:
        """The pod is bound, deleted, or was not placed after all."""
        hold = self._holds.pop(uid, None)
        for node in hold.nodes if hold else ():
            self._on[node].pop(uid, None)
            self._moved(node)

    def expire(self, now: float, hold_seconds: float, seen: Container[str]) -> None:
        """Drop holds that are older than ``hold_seconds``, and sooner those of pods that were never ``seen``.

        Each had its end, and nobody told: a pod may have come and gone while the API server was not watched.
        """
        for uid, hold in tuple(self._holds.items()):
            if now - hold.since >= (hold_seconds if uid in seen else min(UNSEEN_SECONDS, hold_seconds)):
                self.drop(uid)
