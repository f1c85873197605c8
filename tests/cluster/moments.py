"""How long things take on the real kubelet: seconds of each kind of change until the kubelet has what it should.

It answers for the kubelet's own word, and for the file in which times are kept. It must not judge a time.
"""

import asyncio
import datetime as dt
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from grpclib.exceptions import GRPCError, StreamTerminatedError

import pod_resources
from harness import waiting
from railside_proto.names import RESOURCE

KEPT = Path(__file__).parents[2] / "build/proof/moments.json"


def allocatable(kubelet: Path) -> int:
    """How many healthy HCAs the kubelet with that folder has, by PodResources; 0 while it does not answer."""
    return asyncio.run(_allocatable(kubelet))


async def _allocatable(kubelet: Path) -> int:
    try:
        answer = await pod_resources.allocatable(kubelet)
    # grpclib's AttributeError comes where a kubelet that ends hangs up on who has just connected.
    except (OSError, GRPCError, StreamTerminatedError, AttributeError):
        return 0
    return len({name for (resource, _), ids in answer if resource == RESOURCE for name in ids})


class Moments:
    """Seconds by what they are of. They outlive the run: each run replaces those that it took itself."""

    def __init__(self) -> None:
        self._taken: dict[str, list[float]] = {}

    def take(self, what: str, condition: Callable[[], bool], since: float, timeout_s: float = 60) -> None:
        """Wait for ``condition``, and note the seconds ``since`` (of ``time.time``)."""
        waiting.until(condition, what, timeout_s)
        self.note(what, time.time() - since)

    def note(self, what: str, seconds: float) -> None:
        """Note that something took so long."""
        self._taken.setdefault(what, []).append(round(seconds, 3))

    def keep(self) -> str:
        """Write them down; what this run has taken, for people."""
        before = json.loads(KEPT.read_text(encoding="utf-8"))["seconds"] if KEPT.exists() else {}
        today = dt.datetime.now(dt.UTC).date().isoformat()
        kept = {"on": today, "seconds": {**before, **self._taken}}
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        return "\n".join(_line(what, seconds) for what, seconds in self._taken.items())


def _line(what: str, seconds: list[float]) -> str:
    median = statistics.median(seconds)
    return f"{what}: median {median:.2f} s, longest {max(seconds):.2f} s of {len(seconds)}"
