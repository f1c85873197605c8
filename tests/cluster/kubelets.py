"""The face that the real kubelet and the embedded one have in common, so that both can be asked the same.

It answers for what can be asked, for the words in which both say what became of a pod, and for the embedded one
behind that face. It must not know what is right.
"""

import random
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from harness import commands
from railside_proto import names
from railside_sim.ages import AGES, Age
from railside_sim.chance import Chance
from railside_sim.device import KubeletCrashedError
from railside_sim.gpu_plugin import Nodes
from railside_sim.kubelet import EmbeddedKubelet
from railside_sim.pod_spec import Pod
from railside_sim.pods import Failed, Outcome, Pending, ResourceStatus, Running
from railside_sim.policies import Policy
from railside_sim.stand_in_nodes import StandInNodes
from railside_sim.topology_manager import Scope

HCA, GPU = names.RESOURCE, names.GPU_RESOURCE
RUNNING = "Running"
NO_ROOM = "Unschedulable, for want of"
_INSUFFICIENT = re.compile(r"Insufficient ([^\s,]+?)\.?(?=[,\s]|$)")

Lists = Mapping[str, Mapping[str, Nodes]]
"""NUMA nodes by id, by resource."""

Register = Callable[[], Awaitable[None]]
"""Has all plugins register at a kubelet that has just started."""

Status = Mapping[str, ResourceStatus]


class Kubelet(Protocol):
    """What both can do. Folders are as this process sees them."""

    folder: Path
    pods: dict[str, str]
    """Names of all pods there ever were, by UID."""

    async def admit(self, pod: Pod) -> str:
        """Has a pod run, fail, or wait for room; what became of it."""

    async def remove(self, *pods: str) -> None:
        """Ends pods; returns when they are gone."""

    async def becomes(self, pod: str, outcome: str) -> bool:
        """Whether a pod, in the end, is so."""

    async def outcome(self, pod: str) -> str:
        """What has become of a pod by now."""

    async def restart_container(self, pod: str) -> None:
        """Ends the pod's one container; returns when it runs anew."""

    async def offers(self, healthy: Mapping[str, int]) -> Status:
        """Returns, when as many ids are allocatable, what the node's status says of these resources."""

    async def restart(self, register: Register, healthy: Mapping[str, int], *, in_time: bool) -> bool:
        """Restarts; plugins register before or after pods are admitted again. Whether the kubelet lives.

        ``healthy`` counts the ids that are so by then.
        """


def waits(sentence: str) -> str:
    """What became of a pod that waits for room: the resources of which the scheduler's sentence finds too few."""
    return " ".join([NO_ROOM, *sorted(_INSUFFICIENT.findall(sentence))])


class Embedded:
    """The embedded kubelet."""

    def __init__(self, folder: Path, kubelet: EmbeddedKubelet) -> None:
        self.folder = folder
        self.pods: dict[str, str] = {}
        self._kubelet = kubelet

    @property
    def status(self) -> Status:
        """What the node's status says of all resources."""
        return self._kubelet.node_status()

    async def admit(self, pod: Pod) -> str:
        outcome = await self._kubelet.admit(pod)
        self.pods[self._kubelet.uid(pod.name)] = pod.name
        return _told(outcome)

    async def remove(self, *pods: str) -> None:
        for pod in pods:
            await self._kubelet.remove(pod)

    async def becomes(self, pod: str, outcome: str) -> bool:
        return _told(self._kubelet.pods[pod]) == outcome

    async def outcome(self, pod: str) -> str:
        return _told(self._kubelet.pods[pod])

    async def restart_container(self, pod: str) -> None:
        await self._kubelet.restart_container(pod)

    async def offers(self, healthy: Mapping[str, int]) -> Status:
        for resource, count in healthy.items():
            await self._kubelet.until(lambda: self._kubelet.status_of(resource).allocatable == count)  # noqa: B023 -- awaited here
        return {resource: self._kubelet.status_of(resource) for resource in healthy}

    async def restart(self, register: Register, healthy: Mapping[str, int], *, in_time: bool) -> bool:
        await self._kubelet.stop()
        await self._kubelet.start()
        try:
            if in_time:
                await register()
                await self.offers(healthy)
            await self._kubelet.readmit()
        except KubeletCrashedError:
            return False
        if not in_time:
            await register()
        return True


def _told(outcome: Outcome) -> str:
    match outcome:
        case Running():
            return RUNNING
        case Failed(reason=reason):
            return reason
        case Pending(reason=reason, seats=()):
            return waits(reason)
        case Pending(reason=reason):
            return f"Pending: {reason}"


def age_of_this_run() -> Age:
    """The release of the kubelet that runs; KeyError for one that the embedded kubelet cannot be."""
    release = commands.run("kubelet", "--version").rpartition("v")[2].strip()
    return {age.release: age for age in AGES}[release]


@asynccontextmanager
async def embedded(
    policy: Policy, scope: Scope, *, numa: int = 2, chance: Chance | None = None
) -> AsyncIterator[Embedded]:
    """An embedded kubelet of ``numa`` NUMA nodes, of the same release as the real one."""
    with tempfile.TemporaryDirectory(prefix="sim-") as name:
        async with EmbeddedKubelet(
            Path(name),
            read_node=StandInNodes().read,
            rng=random.Random(1),  # noqa: S311 -- a repeatable choice
            numa_nodes=range(numa),
            policy=policy,
            scope=scope,
            chance=chance,
            age=age_of_this_run(),
        ) as kubelet:
            yield Embedded(Path(name), kubelet)
