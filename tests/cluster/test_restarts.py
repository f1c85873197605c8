"""Kubelet and agent restart in turns under pods that come and go: a share of what proof_restarts plays.

It answers for the rounds of ``restarts`` on a node of the document. It must not judge how long they take.
"""

import random

import pytest

from harness.cluster import Cluster
from moments import Moments
from restarts import Rounds, impatient_agent

pytestmark = pytest.mark.timeout(240)


def test_restarts_in_turns(cluster: Cluster, seed: int) -> None:
    """Kubelet and agent, stopped and killed, two rounds of each: every pod keeps its container and its HCA.

    B-DP-21, B-DP-22, B-DP-23.
    """
    with impatient_agent(cluster) as agent:
        rounds = Rounds(agent, random.Random(seed), Moments())  # noqa: S311 -- told, to be drawn again
        rounds.play(*(2 * rounds.steps))
        rounds.end()
