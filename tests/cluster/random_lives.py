"""Nodes and pods at random: what a kubelet's plugins offer, and who comes, goes and falls ill there, step by step.

It answers for lives worth living through: full nodes, uneven ones, sick ones, requests that cannot be met. A life
comes from its seed alone, whatever becomes of its pods. It must not ask anybody.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from judged import Plugin, first
from kubelets import GPU, HCA, Lists
from railside_sim.gpu_plugin import Asked, Nodes, Preference
from railside_sim.pod_spec import ContainerSpec, Pod

EXTRA = "example.com/extra"
_NOWHERE = 7
"""A NUMA node that no machine of ours has."""


class Step(NamedTuple):
    """First some pods go (or would, were they there), then health changes, then others come, and some look on."""

    leave: tuple[str, ...]
    sick: frozenset[str] | None
    """None where health stays as it is."""
    come: tuple[Pod, ...]
    is_listed: bool
    """Whether PodResources List is asked, which forgets ended pods."""


class Life(NamedTuple):
    """A node with ``numa`` NUMA nodes, its plugins, and its steps."""

    numa: int
    lists: Lists
    behaviour: dict[str, Plugin]
    steps: tuple[Step, ...]


def draw_life(rng: random.Random, pods: int, *, a_step: int) -> Life:
    """A life of ``pods`` pods, of which ``a_step`` come together."""
    numa = rng.choice((2, 2, 4))
    lists = _draw_lists(rng, numa)
    behaviour = {resource: _draw_behaviour(rng) for resource in lists}
    numbers = range(pods)
    groups = [numbers[start : start + a_step] for start in range(0, pods, a_step)]
    return Life(numa, lists, behaviour, tuple(_draw_step(rng, lists, group) for group in groups))


def _draw_lists(rng: random.Random, numa: int) -> dict[str, dict[str, Nodes]]:
    resources = [HCA, GPU, *([EXTRA] if rng.random() < 0.3 else [])]
    return {
        resource: _draw_ids(rng, letter, numa)
        for resource, letter in zip(resources, "hgx"[: len(resources)], strict=True)
    }


def _draw_ids(rng: random.Random, letter: str, numa: int) -> dict[str, Nodes]:
    """One to eight ids, most often near the many; mostly even over the nodes, now and then lopsided or odd."""
    count = max(rng.randint(1, 8) for _ in range(3))
    weights = rng.choice(([1] * numa, [rng.random() for _ in range(numa)]))
    even = [number * numa // count for number in range(count)]
    uneven = sorted(rng.choices(range(numa), weights, k=count))
    nodes = rng.choice((even, uneven))
    oddity = rng.choices(("", "bare", "some bare", "some anywhere", "some nowhere"), (70, 8, 8, 8, 6))[0]
    return {f"{letter}{number}": _placed(rng, node, numa, oddity) for number, node in enumerate(nodes)}


def _placed(rng: random.Random, node: int, numa: int, oddity: str) -> Nodes:
    is_odd = rng.random() < 0.4
    match oddity:
        case "bare":
            return None
        case "some bare" if is_odd:
            return None
        case "some anywhere" if is_odd:
            return tuple(range(numa))
        case "some nowhere" if is_odd:
            return _NOWHERE
        case _:
            return node


def _draw_behaviour(rng: random.Random) -> Plugin:
    wishes: tuple[Preference | None, ...] = (None, first, _last, _too_few, _too_many)
    return Plugin(rng.choices(wishes, (4, 8, 4, 1, 1))[0], pre_start=rng.random() < 0.8)


def _last(asked: Asked) -> list[str]:
    free = [one for one in reversed(asked.ids) if one not in asked.must_include]
    return [*asked.must_include, *free][: asked.size]


def _too_few(asked: Asked) -> list[str]:
    return [*asked.ids[-1:], "no-id-of-ours"]


def _too_many(asked: Asked) -> list[str]:
    return list(asked.ids)


def _draw_step(rng: random.Random, lists: Lists, numbers: Sequence[int]) -> Step:
    every = [f"r{number}" for number in range(numbers[0])]
    leaving = rng.choice((0.3, 0.6, 0.8, 1.0))
    return Step(
        leave=tuple(name for name in every if rng.random() < leaving),
        sick=_draw_sick(rng, lists) if numbers[0] and rng.random() < 0.5 else None,
        come=tuple(draw_pod(rng, f"r{number}", list(lists)) for number in numbers),
        is_listed=rng.random() < 0.5,
    )


def _draw_sick(rng: random.Random, lists: Lists) -> frozenset[str]:
    share = rng.choice((0, 0, 0.15, 0.3, 1))
    every = lists[rng.choice(list(lists))] if share == 1 else [one for ids in lists.values() for one in ids]
    return frozenset(one for one in every if rng.random() < share)


def draw_pod(rng: random.Random, name: str, resources: Sequence[str]) -> Pod:
    """A pod that asks for some of the resources, or for nothing; now and then it comes past the scheduler."""
    wanted = rng.choice((resources, resources, resources, resources[:1], resources[1:2], resources[1:], ()))
    mains = rng.choice((1, 1, 1, 2, 2, 3))
    most = rng.choice((1, 2, 3, 4, 8)) if mains == 1 else rng.choice((1, 1, 2, 3))
    inits = rng.choice((0, 0, 0, 1, 1, 2))
    return Pod(
        name=name,
        init_containers=tuple(
            _draw_container(rng, f"init{number}", wanted, most, restartable=rng.random() < 0.4)
            for number in range(inits)
        ),
        containers=tuple(_draw_container(rng, f"main{number}", wanted, most) for number in range(mains)),
        static=rng.random() < 0.25,
    )


def _draw_container(
    rng: random.Random, name: str, wanted: Sequence[str], most: int, *, restartable: bool = False
) -> ContainerSpec:
    requests = {resource: rng.randint(1, most) for resource in wanted if rng.random() < 0.75}
    for resource in wanted:
        if rng.random() < 0.06:
            requests[resource] = 0
    if rng.random() < 0.3:
        requests["cpu"] = 1
    return ContainerSpec(name=name, requests=requests, restartable=restartable)
