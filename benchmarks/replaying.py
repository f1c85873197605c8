"""How fast a recording from the field is decided again at a desk. It must not write a recording itself."""

import time
from typing import Final

from benchmarks.figures import Figure, floor, spread
from benchmarks.programs import BenchmarkError
from railside_agent.flight_log import read
from railside_agent.replay import Replayed, replay

_ROUNDS: Final = 5


def figure(recording: bytes) -> Figure:
    """The figure, on the lines of ``recording``."""
    took: list[float] = []
    reads: list[float] = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        entries = list(read(recording))
        read_at = time.perf_counter()
        steps = [step for step in replay(entries) if isinstance(step, Replayed)]
        done = time.perf_counter()
        if not steps:
            raise BenchmarkError("the agent's recording holds no decision")
        took.append((done - began) / len(steps) * 1000)
        reads.append((read_at - began) / len(steps) * 1000)
    differing = sum(bool(step.differences) for step in steps)
    return Figure(
        group="Replay",
        what="a recorded decision, decided again",
        unit="ms",
        spread=spread(took),
        floor=floor("reading the same lines", reads, took),
        note=f"{len(steps)} decisions in {len(recording) // 1000} kB, recorded by the agent while its calls were"
        f" measured; {differing} came out otherwise",
    )
