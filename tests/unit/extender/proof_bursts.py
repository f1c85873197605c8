"""All that test_crowd.py runs a share of: 100,000 bursts of pods, and 2,000 for density.

It takes some minutes; ``make proof-bursts`` runs it. It must not ask for less.
"""

import secrets

import pytest
from tests.unit.extender.burst_runs import BOTH, Burst, Density

from railside_sim.policies import Policy
from railside_sim.topology_manager import Scope

BURSTS = 100_000
DENSITY_BURSTS = 2_000


@pytest.mark.timeout(2400)
@pytest.mark.parametrize(("policy", "scope"), BOTH)
def test_who_passed_is_never_turned_away(policy: Policy, scope: Scope) -> None:
    """100,000 bursts, a quarter under each policy and scope, half in every order and all with pods that end."""
    seed, passed = secrets.token_hex(4), 0
    for number in range(BURSTS // len(BOTH)):
        burst = Burst(f"{seed}-{number}", policy, scope)
        pods = burst.passed(burst.draw())
        passed += len(pods)
        if number % 2:
            assert burst.in_every_order(pods) == [], f"{seed}-{number}"
        assert burst.arrive(pods) == [], f"{seed}-{number}"
    print(f"\n{policy}, {scope}: {passed} pods passed, none was turned away (seed {seed})")


@pytest.mark.timeout(2400)
def test_how_many_of_those_that_could_do_pass() -> None:
    """Alone and of one shape all, of mixed bursts three quarters at least."""
    seed, density = secrets.token_hex(4), Density()
    for policy, scope in BOTH:
        for number in range(DENSITY_BURSTS // len(BOTH)):
            density.live(Burst(f"{seed}-{number}", policy, scope), alike=number % 2 == 0)
    for kind, count in sorted(density.admissible.items()):
        print(f"\n{kind}: {density.passed[kind]} of {count} pass ({density.ratio(kind):.1%}; seed {seed})")
    assert density.ratio("alone") == density.ratio("alike") == 1
    assert density.ratio("mixed") >= 0.75
