"""A hundred restarts of the kubelet and fifty of the agent, under pods that come and go, and HCAs that do so.

It answers for what ``make proof`` adds to test_restarts. It must not judge how long anything takes: the times are
kept, for docs/performance.md.
"""

import random
import time
from collections.abc import Callable, Iterator

import pytest

from harness.cluster import Cluster
from installed_agent import HCAS, InstalledAgent
from machine_tree import ACTIVE, DOWN, set_port, unplug
from moments import Moments, allocatable
from restarts import Rounds, impatient_agent

PARTS = 5
KUBELET, AGENT = 100 // PARTS, 50 // PARTS
HARDWARE_ROUNDS = 10


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


@pytest.mark.timeout(1800)
def test_hcas_come_and_go(cluster: Cluster, moments: Moments) -> None:
    """Ports that go down and HCAs that go are out of the kubelet's hands each time, and are back when they are."""
    looking = {"RAILSIDE_AGENT_RESYNC_SECONDS": "1", "RAILSIDE_AGENT_RECOVERY_SECONDS": "1"}
    with impatient_agent(cluster, **looking) as agent:
        device = agent.hca_names()["uverbs4"]
        for _ in range(HARDWARE_ROUNDS):
            set_port(agent.machine.tree, device, DOWN)
            await_hcas(agent, moments, "port down to allocatable, by asking each second", HCAS - 1)
            set_port(agent.machine.tree, device, ACTIVE)
            await_hcas(agent, moments, "port up to allocatable, well for a second", HCAS)
            gone = unplug(agent.machine.tree, "uverbs4")
            await_hcas(agent, moments, "HCA gone to allocatable, by looking each second", HCAS - 1)
            gone.plug()
            await_hcas(agent, moments, "HCA back to allocatable, well for a second", HCAS)


def await_hcas(agent: InstalledAgent, moments: Moments, what: str, count: int) -> None:
    """Note when the kubelet has so many."""
    moments.take(what, lambda: allocatable(agent.node.kubelet_folder) == count, time.time())
