"""Bursts of pods lived through: who passes the extender's rules, and what the kubelet says to them.

It answers for the ways in which a burst may arrive, and for the oracle that tries them all. It must not draw pods.
"""

import copy
import itertools
import random
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.unit.extender.bursts import draw_judge, draw_pod, releases, room, rule, units_of

from railside_extender.admission import widths
from railside_extender.crowd import Pod as Units
from railside_extender.crowd import everybody_is_safe
from railside_sim.pod_spec import Pod
from railside_sim.policies import Policy
from railside_sim.topology_manager import Scope

STRICT: tuple[Policy, ...] = ("restricted", "single-numa-node")
SCOPES: tuple[Scope, ...] = ("container", "pod")
BOTH = list(itertools.product(STRICT, SCOPES))
MOST = 4
"""Pods of a burst."""
TRIES = 10
"""How often the oracle tries every order: the kubelet chooses ids at random."""


class Burst:
    """A node with some pods on it, and those that come."""

    def __init__(self, seed: str, policy: Policy, scope: Scope) -> None:
        self.rng = random.Random(seed)  # noqa: S311 -- not a secret
        self.judge = draw_judge(self.rng, policy, scope)
        for number in range(self.rng.choice((0, 0, 1, 2, 4, 6))):
            pod = draw_pod(self.rng, f"held{number}")
            if self.judge.has_room(pod):
                self.judge.admit(pod)
        self._room, self._rule, self._releases = room(self.judge), rule(self.judge), releases(self.judge)

    def draw(self, *, alike: bool = False) -> list[Pod]:
        """One to four pods; all ``alike`` but for their names, if so."""
        pods = [draw_pod(self.rng, f"new{number}") for number in range(self.rng.randint(1, MOST))]
        return [_renamed(pods[0], pod.name) for pod in pods] if alike else pods

    def passes(self, pod: Pod, others: Sequence[Pod]) -> bool:
        """Whether ``pod`` passes while ``others`` are on their way; the scheduler counts totals before."""
        return self.fits_totals([*others, pod]) and everybody_is_safe(
            self._room, self._rule, self.units(pod), tuple(map(self.units, others)), self._releases
        )

    def passed(self, pods: Iterable[Pod]) -> list[Pod]:
        """Those of ``pods`` that pass, one after the other."""
        through: list[Pod] = []
        for pod in pods:
            if self.passes(pod, through):
                through.append(pod)
        return through

    def fits_totals(self, pods: Sequence[Pod]) -> bool:
        """Whether the scheduler would count all of ``pods`` in."""
        asked: Counter[str] = Counter()
        for pod in pods:
            asked.update(pod.total())
        return all(sum(self.judge.free(resource).values()) >= asked[resource] for resource in self.judge.devices)

    def arrive(self, pods: Sequence[Pod]) -> list[str]:
        """What the kubelet says to those that it turns away, in a random order, while others end."""
        said = []
        for pod in self.rng.sample(pods, len(pods)):
            self._end_some({pod.uid})
            self.judge.between = lambda uid=pod.uid: self._end_some({uid})  # type: ignore[misc]
            refusal = self.judge.admit(pod)
            if refusal is not None:
                said.append(f"{pod}: {refusal}")
        return said

    def _end_some(self, but: set[str]) -> None:
        for uid in self.judge.pods:
            if uid not in but and self.rng.random() < 0.15:
                self.judge.remove(uid)

    def in_every_order(self, pods: Sequence[Pod]) -> list[str]:
        """What the kubelet says to those that it turns away, in any order at all; nobody ends."""
        before = self.judge.pods
        for number, order in enumerate(itertools.permutations(pods)):
            # A UID never comes twice: the kubelet remembers what init containers of the last pod had.
            coming = [_renamed(pod, f"{pod.name}-{number}") for pod in order]
            said = [f"{pod}: {refusal}" for pod in coming if (refusal := self.judge.admit(pod)) is not None]
            for uid in set(self.judge.pods).difference(before):
                self.judge.remove(uid)
            if said:
                return said
        return []

    def is_admissible(self, pods: Sequence[Pod]) -> bool:
        """Whether the kubelet admits ``pods`` in every order, and one alone also whoever ends before it comes."""
        if any(self.in_every_order(pods) for _ in range(TRIES)):
            return False
        return len(pods) > 1 or all(self._admits_without(ended, pods[0]) for ended in _subsets(self.judge.pods))

    def _admits_without(self, ended: Iterable[str], pod: Pod) -> bool:
        judge = copy.deepcopy(self.judge)
        for uid in ended:
            judge.remove(uid)
        return judge.admit(_renamed(pod, "another")) is None

    def is_simple(self, pod: Pod) -> bool:
        """Whether ``pod`` takes one NUMA node as a whole, and each device is on one."""
        return len(self.units(pod)) <= 1 and self.leaves_nothing_to_chance(pod)

    def leaves_nothing_to_chance(self, pod: Pod) -> bool:
        """Whether no choice of the kubelet matters: each step takes one NUMA node, and each device is on one."""
        groups = (group for _, supply in self._room.supplies for group in supply.groups)
        return all(widths(self._room, unit) == {1} for unit in self.units(pod)) and all(
            group.mask.bit_count() == 1 for group in groups
        )

    def units(self, pod: Pod) -> Units:
        """The pod as the extender sees it."""
        return units_of(pod, self.judge.scope, self._room.aligned)


def _renamed(pod: Pod, name: str) -> Pod:
    return Pod(name=name, uid=name, containers=pod.containers, init_containers=pod.init_containers)


def _subsets(uids: Sequence[str]) -> Iterable[tuple[str, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(uids, count) for count in range(len(uids) + 1))


class Density:
    """How many pods pass of those that would be admitted in every order, beside those that passed before them.

    ``alone`` on a quiet node, where no choice of the kubelet matters that the oracle might miss, else ``alone, by
    chance``; ``alike`` of one shape that is aligned as a whole on one NUMA node, where each device is on one;
    ``alike, wider`` of one shape else; ``mixed`` of several.
    """

    def __init__(self) -> None:
        self.admissible: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()

    def live(self, burst: Burst, *, alike: bool) -> None:
        """Count a burst of pods of one shape, or of several."""
        pods = burst.draw(alike=alike)
        is_simple = alike and burst.is_simple(pods[0])
        self._add(burst, pods, "alike" if is_simple else "alike, wider" if alike else "mixed")

    def _add(self, burst: Burst, pods: Sequence[Pod], kind: str) -> None:
        """Each of ``pods`` beside those that passed before it."""
        through: list[Pod] = []
        for pod in pods:
            passes = burst.passes(pod, through)
            every = [*through, pod]
            if burst.fits_totals(every) and burst.is_admissible(every):
                named = kind if through else "alone" if burst.leaves_nothing_to_chance(pod) else "alone, by chance"
                self.admissible[named] += 1
                self.passed[named] += passes
            if passes:
                through.append(pod)

    def ratio(self, kind: str) -> float:
        """1 where all pass; a kind that never came is a bug of the draws."""
        return self.passed[kind] / self.admissible[kind]
