"""Bursts of pods on one node: what passes the extender's rules is never turned away by the kubelet."""

import secrets

import pytest
from tests.unit.extender.burst_runs import BOTH, Burst, Density

from railside_sim.policies import Policy
from railside_sim.topology_manager import Scope

BURSTS = 300


@pytest.mark.parametrize(("policy", "scope"), BOTH)
def test_who_passed_is_never_turned_away(policy: Policy, scope: Scope) -> None:
    """Random nodes, random bursts, any order, pods that end meanwhile: the kubelet admits all that passed."""
    seed, passed = secrets.token_hex(4), 0
    for number in range(BURSTS):
        burst = Burst(f"{seed}-{number}", policy, scope)
        pods = burst.passed(burst.draw())
        passed += len(pods)
        assert burst.in_every_order(pods) == [], f"{seed}-{number}"
        assert burst.arrive(pods) == [], f"{seed}-{number}"
    assert passed > BURSTS / 4


@pytest.mark.parametrize(("policy", "scope"), BOTH)
def test_nobody_is_kept_back_for_nothing(policy: Policy, scope: Scope) -> None:
    """Of pods that are admitted in every order all pass that are alone or of one shape; the proof has the rest."""
    seed, density = secrets.token_hex(4), Density()
    for number in range(BURSTS // 2):
        burst = Burst(f"{seed}-{number}", policy, scope)
        density.live(burst, alike=number % 2 == 0)
    assert density.ratio("alone") == density.ratio("alike") == 1, seed
