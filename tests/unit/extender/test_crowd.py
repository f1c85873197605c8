"""Bursts of pods on one node: what passes the extender's rules is never turned away by the kubelet."""

import itertools
import random

import pytest
from tests.unit.extender.bursts import draw_judge, draw_pod, releases, room, rule, units_of
from tests.unit.extender.judge import Judge

from railside_extender.crowd import everybody_is_safe
from railside_sim.pod_spec import Pod
from railside_sim.policies import Policy
from railside_sim.topology_manager import Scope

STRICT: tuple[Policy, ...] = ("restricted", "single-numa-node")
SCOPES: tuple[Scope, ...] = ("container", "pod")
BURSTS = 400


def _fill(judge: Judge, rng: random.Random) -> None:
    """Pods that hold something already."""
    for number in range(rng.choice((0, 0, 1, 2, 4, 6))):
        pod = draw_pod(rng, f"held{number}")
        if judge.has_room(pod):
            judge.admit(pod)


def _passed(judge: Judge, rng: random.Random, most: int) -> list[Pod]:
    """Those of a burst that the extender lets through; the scheduler counts totals before."""
    now, how, given = room(judge), rule(judge), releases(judge)
    through: list[Pod] = []
    for number in range(rng.randint(1, most)):
        pod = draw_pod(rng, f"new{number}")
        others = tuple(units_of(one, judge.scope, now.aligned) for one in through)
        if _fits_totals(judge, [*through, pod]) and everybody_is_safe(
            now, how, units_of(pod, judge.scope, now.aligned), others, given
        ):
            through.append(pod)
    return through


def _fits_totals(judge: Judge, pods: list[Pod]) -> bool:
    return all(
        sum(judge.free(resource).values()) >= sum(pod.total().get(resource, 0) for pod in pods)
        for resource in judge.devices
    )


def _arrive(judge: Judge, rng: random.Random, pods: list[Pod]) -> list[str]:
    """What the kubelet says of pods that it turns away, in a random order, while others end."""
    said = []
    for pod in rng.sample(pods, len(pods)):
        for uid in judge.pods:
            if rng.random() < 0.15:
                judge.remove(uid)
        refusal = judge.admit(pod)
        if refusal is not None:
            said.append(f"{pod} {refusal}")
    return said


@pytest.mark.parametrize(("policy", "scope"), list(itertools.product(STRICT, SCOPES)))
def test_who_passed_is_never_turned_away(policy: Policy, scope: Scope) -> None:
    """Random nodes, random bursts, any order, pods that end meanwhile: the kubelet admits all that passed."""
    seed = random.SystemRandom().randrange(1 << 32)
    passed = 0
    for number in range(BURSTS):
        rng = random.Random(f"{seed}-{number}")  # noqa: S311 -- not a secret
        judge = draw_judge(rng, policy, scope)
        _fill(judge, rng)
        pods = _passed(judge, rng, 4)
        passed += len(pods)
        assert _arrive(judge, rng, pods) == [], f"seed {seed}, burst {number}"
    assert passed > BURSTS / 4
