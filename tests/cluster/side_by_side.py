"""Two kubelets that live through the same: the real one, and the embedded one, which takes its turns of chance.

It answers for what must then be the same, which is all that can be seen: what becomes of each pod and in which
words, every id by container and resource, every call to a plugin, the node's status, the checkpoint, PodResources.
It must not forgive: what Go's maps decided has been read from the real one's log before.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from admission_log import AdmissionLog
from harness.cluster import Cluster, MakeNode
from judged import Judged, judged
from kubelets import NO_ROOM, RUNNING, Embedded, embedded
from pod_resources import allocatable, list_pods
from railside_sim.pod_spec import Pod
from railside_sim.policies import Policy
from railside_sim.scheduler import lacking
from railside_sim.topology_manager import Scope
from random_lives import Life, Step, draw_life
from real_kubelet import Real

A_STEP = 6
"""Pods that come together, at most."""


class Setting(NamedTuple):
    """The kubelet's topologyManagerPolicy and -Scope."""

    policy: Policy
    scope: Scope


_POLICIES: tuple[Policy, ...] = ("none", "best-effort", "restricted", "single-numa-node")
_SCOPES: tuple[Scope, ...] = ("container", "pod")
SETTINGS = tuple(Setting(policy, scope) for policy in _POLICIES for scope in _SCOPES)


class Compared(NamedTuple):
    """One thing of both kubelets."""

    what: str
    ours: object
    real: object


class Couple:
    """Both kubelets with their plugins, and the pods that are there."""

    def __init__(
        self,
        ours: tuple[Embedded, Judged],
        real: tuple[Real, Judged],
        log: AdmissionLog,
        fates: Counter[str],
    ) -> None:
        self._embedded, self._ours = ours
        self._real, self._theirs = real
        self._folders = self._embedded.folder, self._real.folder
        self._log = log
        self._fates = fates
        self._there: set[str] = set()
        self._running: dict[str, Pod] = {}

    async def step(self, step: Step) -> AsyncIterator[Compared]:
        """One step of a life; all that there is to compare, as it comes."""
        await self._leave([name for name in step.leave if name in self._there])
        if step.sick is not None:
            statuses = await self._ours.fall_ill(step.sick), await self._theirs.fall_ill(step.sick)
            yield Compared(f"the node's status with {sorted(step.sick)} ill", *statuses)
        left = list(step.come)
        while left:
            come, has_room = self._next(left)
            del left[: len(come)]
            async for compared in self._come(come, has_room=has_room):
                yield compared
        if step.is_listed:
            yield Compared("PodResources List", *[await list_pods(folder) for folder in self._folders])
            yield Compared("PodResources' allocatable", *[await allocatable(folder) for folder in self._folders])

    async def _leave(self, pods: Sequence[str]) -> None:
        await self._embedded.remove(*pods)
        await self._real.remove(*pods)
        self._there.difference_update(pods)
        self._running = {name: pod for name, pod in self._running.items() if name in self._there}

    def _next(self, pods: Sequence[Pod]) -> tuple[list[Pod], bool]:
        """The first pods, for all of which the scheduler has room together; or one for which it has none."""
        fit: list[Pod] = []
        for pod in pods:
            if lacking(pod, [*self._running.values(), *fit], self._embedded.status) is not None:
                break
            fit.append(pod)
        return fit or [pods[0]], bool(fit)

    async def _come(self, pods: Sequence[Pod], *, has_room: bool) -> AsyncIterator[Compared]:
        """The real kubelet takes them in an order of its own, and the embedded one in the same."""
        found = await self._real.admit_all(pods, wait_for_room=not has_room)
        admitted = self._log.read()
        unseen = {name for name, outcome in found.items() if _is_of_kubelet(outcome)}.difference(admitted)
        if unseen:
            raise LookupError(f"the real kubelet's log does not tell how it admitted {sorted(unseen)}")
        places = {name: place for place, name in enumerate(admitted)}
        in_order = sorted(pods, key=lambda pod: places.get(pod.name, len(places)))
        expected = {pod.name: await self._embedded.admit(pod) for pod in in_order}
        self._there |= expected.keys()
        self._running |= {pod.name: pod for pod in pods if found[pod.name] == RUNNING}
        self._fates.update(outcome.partition(":")[0].partition(",")[0] for outcome in found.values())
        yield Compared("what becomes of the pods", expected, found)
        yield Compared("the plugins' calls", self._ours.take_calls(), self._theirs.take_calls())
        yield Compared("the checkpoint", self._ours.books(), self._theirs.books())
        await self._leave([name for name, outcome in found.items() if not _is_of_kubelet(outcome)])


def _is_of_kubelet(outcome: str) -> bool:
    return not outcome.startswith(NO_ROOM)


async def first_difference(real: Real, setting: Setting, life: Life, fates: Counter[str]) -> str | None:
    """Where the kubelets differ first in this life; the ends of pods are added to ``fates``."""
    log = AdmissionLog(real.log, real.name_of)
    async with (
        embedded(*setting, numa=life.numa, chance=log) as ours,
        judged(ours, life.lists, life.behaviour) as expected,
        judged(real, life.lists, life.behaviour) as found,
    ):
        couple = Couple((ours, expected), (real, found), log, fates)
        for number, step in enumerate(life.steps):
            async for compared in couple.step(step):
                if compared.ours != compared.real:
                    return _report(compared, life, number)
    return None


def _report(compared: Compared, life: Life, number: int) -> str:
    return "\n".join(
        [
            f"step {number}, {compared.what}:",
            *_unequal(compared.ours, compared.real),
            f"lists: {life.lists}",
            f"behaviour: {life.behaviour}",
            *(f"    {pod}" for pod in life.steps[number].come),
        ]
    )


def _unequal(ours: object, real: object) -> list[str]:
    """What differs, by key where there are keys."""
    if not isinstance(ours, dict) or not isinstance(real, dict):
        return [f"  embedded: {ours}", f"  real:     {real}"]
    keys = sorted(key for key in ours.keys() | real.keys() if ours.get(key) != real.get(key))
    return [line for key in keys for line in (f"  {key}", *_unequal(ours.get(key), real.get(key)))]


async def differences(
    cluster: Cluster, node: MakeNode, settings: Sequence[Setting], pods: int, *, seed: int, fates: Counter[str]
) -> list[str]:
    """Lives of ``pods`` random pods under each setting, all at a time; what differs, and how to see it again."""
    lives = {setting: draw_life(random.Random(f"{seed} {setting}"), pods, a_step=A_STEP) for setting in settings}  # noqa: S311
    nodes = {
        setting: node(numa=life.numa, policy=setting.policy, scope=setting.scope)
        for setting, life in lives.items()
    }
    async with asyncio.TaskGroup() as group:
        found = {
            setting: group.create_task(
                first_difference(Real(cluster, nodes[setting]), setting, life, fates), name=str(setting)
            )
            for setting, life in lives.items()
        }
    return [f"{setting}: {each.result()}" for setting, each in found.items() if each.result() is not None]
