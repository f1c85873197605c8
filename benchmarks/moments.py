"""Times on the real kubelet, which the cluster tests take: their file, and their part of the page.

It answers for what is kept of them beside the page. It must not take any: see tests/cluster/moments.py.
"""

import datetime as dt
import statistics
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.programs import REPOSITORY

TAKEN = REPOSITORY / "build/proof/moments.json"
KEPT = REPOSITORY / "benchmarks/moments.json"
"""The last that were taken, as the page must not lose them when the benchmarks alone are run."""


class Moments(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds by what they are of."""

    on: dt.date
    seconds: dict[str, tuple[float, ...]]


def latest(taken: Path = TAKEN, kept: Path = KEPT) -> Moments:
    """What was taken last; it is kept."""
    if taken.exists():
        kept.write_bytes(taken.read_bytes())
    return msgspec.json.decode(kept.read_bytes(), type=Moments)


def section(moments: Moments) -> Iterator[str]:
    """Lines of the page."""
    yield "## On the real kubelet\n"
    yield f"Taken on {moments.on} by `make proof-restarts`, with kubelet, containerd and all else of Kubernetes"
    yield "beside the agent on the same two cores, and the agent as its DaemonSet installs it. *Allocatable* is"
    yield "what the kubelet itself says (PodResources); the API server's node follows when it is told next.\n"
    yield "| from, to | times | median | longest |"
    yield "| --- | --: | --: | --: |"
    for what, seconds in moments.seconds.items():
        yield f"| {what} | {len(seconds)} | {statistics.median(seconds):.2f} s | {max(seconds):.2f} s |"
    yield ""
