"""Nodes and bursts of pods at random, and what the extender makes of them.

It answers for draws that matter: crowded nodes, uneven ones, ill devices, GPU-only pods, several containers. It
must not know what becomes of a burst.
"""

import random
from collections import Counter
from collections.abc import Iterable

from tests.unit.extender.judge import Judge

from railside_extender.admission import Release, Rule
from railside_extender.crowd import Pod as Units
from railside_extender.demand import Unit
from railside_extender.room import Group, Room, Supply, mask_of
from railside_proto.podspec import Kind
from railside_proto.record import TopologyPolicy
from railside_sim.device import ListedDevice
from railside_sim.pod_spec import ContainerSpec, Pod
from railside_sim.policies import Policy
from railside_sim.topology_manager import Scope

HCA, GPU = "hca", "gpu"


def draw_judge(rng: random.Random, policy: Policy, scope: Scope) -> Judge:
    """A node whose kubelet has such a policy and scope."""
    numa = tuple(range(rng.choice((1, 2, 2, 2, 4))))
    devices = {resource: tuple(_draw_ids(rng, resource, numa)) for resource in (HCA, GPU)}
    return Judge(rng, policy, scope, numa, devices)


def _draw_ids(rng: random.Random, letter: str, numa: tuple[int, ...]) -> Iterable[ListedDevice]:
    count = rng.choice((2, 4, 8, 8, 8, 16))
    weights = rng.choice(([1.0] * len(numa), [rng.random() + 0.05 for _ in numa]))
    oddity = rng.choices(("", "anywhere", "bare", "nowhere", "all bare"), (80, 8, 4, 4, 4))[0]
    for number in range(count):
        even = numa[number * len(numa) // count]
        node = rng.choice((even, even, even, rng.choices(numa, weights)[0]))
        yield ListedDevice(
            id=f"{letter}{number}", healthy=rng.random() > 0.05, numa=_place(rng, node, numa, oddity)
        )


def _place(rng: random.Random, node: int, numa: tuple[int, ...], oddity: str) -> frozenset[int] | None:
    if oddity == "all bare":
        return None
    if not oddity or rng.random() > 0.3:
        return frozenset({node})
    return {"anywhere": frozenset(numa), "bare": None, "nowhere": frozenset({7})}[oddity]


def draw_pod(rng: random.Random, name: str) -> Pod:
    """Mostly one container with equal numbers of GPUs and HCAs."""
    mains = rng.choices((1, 2, 3), (80, 15, 5))[0]
    inits = rng.choices((0, 1, 2), (85, 12, 3))[0]
    return Pod(
        name=name,
        uid=name,
        init_containers=tuple(
            _draw_container(rng, f"init{number}", restartable=rng.random() < 0.5) for number in range(inits)
        ),
        containers=tuple(_draw_container(rng, f"main{number}") for number in range(mains)),
    )


def _draw_container(rng: random.Random, name: str, *, restartable: bool = False) -> ContainerSpec:
    gpus, hcas = rng.choice((1, 1, 2, 2, 4, 8)), rng.choice((1, 2, 4))
    shape = rng.choices(("both", "gpu", "hca", "uneven", "none"), (50, 20, 15, 12, 3))[0]
    wanted = {
        "both": {GPU: gpus, HCA: gpus},
        "gpu": {GPU: gpus},
        "hca": {HCA: hcas},
        "uneven": {GPU: gpus, HCA: hcas},
    }
    return ContainerSpec(name=name, requests=wanted.get(shape, {}), restartable=restartable)


def rule(judge: Judge) -> Rule:
    """How the extender sees the kubelet."""
    return Rule(TopologyPolicy(judge.policy))


def room(judge: Judge) -> Room:
    """What a record would tell of the node."""
    supplies = ((resource, _groups(judge, resource)) for resource in sorted(judge.devices))
    return Room(judge.numa_nodes, tuple((resource, Supply(groups)) for resource, groups in supplies if groups))


def _hints(judge: Judge, resource: str) -> list[frozenset[int] | None]:
    found = {device.numa for device in judge.devices[resource]}
    return sorted(found, key=lambda numa: sorted(numa or ())) if found != {None} else []


def _groups(judge: Judge, resource: str) -> tuple[Group, ...]:
    every, free = Counter(device.numa for device in judge.devices[resource]), judge.free(resource)
    return tuple(
        Group(mask_of(hint or (), judge.numa_nodes), every[hint], free[hint]) for hint in _hints(judge, resource)
    )


def releases(judge: Judge) -> tuple[Release, ...]:
    """What each pod would give back."""
    found = (
        tuple(
            (resource, tuple(judge.held(uid, resource)[hint] for hint in _hints(judge, resource)))
            for resource, _ in room(judge).supplies
        )
        for uid in judge.pods
    )
    return tuple(one for one in found if any(any(split) for _, split in one))


def units_of(pod: Pod, scope: Scope, aligned: frozenset[str]) -> Units:
    """The pod as the extender sees it."""
    if scope == "pod":
        found = [Unit(_wants(pod.total(), aligned))]
    else:
        found = [Unit(_wants(dict(one.requests), aligned), _kind(pod, one)) for one in pod.in_order()]
    return tuple(unit for unit in found if unit.wants)


def _kind(pod: Pod, container: ContainerSpec) -> Kind:
    if container in pod.containers:
        return Kind.MAIN
    return Kind.INIT if pod.is_ending(container) else Kind.SIDECAR


def _wants(requests: dict[str, int], aligned: frozenset[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((name, count) for name, count in requests.items() if name in aligned))
