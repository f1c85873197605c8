"""A hundred restarts of the kubelet and fifty of the agent, under pods that come and go, in parts.

It answers for what ``make proof`` adds to test_restarts. It must not judge how long a restart takes: the times are
kept, for docs/performance.md.
"""

import random
from collections.abc import Callable, Iterator

import pytest

from harness.cluster import Cluster
from moments import Moments
from restarts import Rounds, impatient_agent

PARTS = 5
KUBELET, AGENT = 100 // PARTS, 50 // PARTS


@pytest.fixture(scope="module")
def moments(tell: Callable[[str], None]) -> Iterator[Moments]:
    """The times of all parts."""
    taken = Moments()
    yield taken
    tell(taken.keep())


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_restarts_in_any_order(cluster: Cluster, seed: int, moments: Moments, part: int) -> None:
    """Whatever restarts, in whatever order, every pod keeps its container and its HCA."""
    rng = random.Random(f"{seed} {part}")  # noqa: S311 -- told, to be drawn again
    with impatient_agent(cluster) as agent:
        rounds = Rounds(agent, rng, moments)
        kubelet = rng.choices((rounds.kubelet_stops, rounds.kubelet_is_killed), k=KUBELET)
        ours = rng.choices((rounds.agent_is_killed, rounds.agent_is_replaced), k=AGENT)
        rounds.play(*rng.sample(kubelet + ours, KUBELET + AGENT))
        rounds.end()
