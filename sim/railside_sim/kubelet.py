"""An embedded kubelet: real sockets, the device plugin API, and pods that come, go and restart.

It answers for what a plugin would live through with the real one (1.34 or older), and for the scheduler's count
before it. It must not know any plugin, nor poll: whoever waits uses ``until``, and retries come when told.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from railside_proto import names
from railside_sim.ages import KUBELET_1_34, Age
from railside_sim.chance import Chance, Luck
from railside_sim.device import KubeletCrashedError, ListedDevice
from railside_sim.kubelet_run import KubeletRun
from railside_sim.node_pods import NodePod, NodePods
from railside_sim.pod_spec import Pod
from railside_sim.pods import Failed, Outcome, Pending, PodRequest, Refusal, ResourceStatus
from railside_sim.policies import Policy
from railside_sim.runtime import NodeReader
from railside_sim.scheduler import lacking, over_node
from railside_sim.topology_manager import Scope

_PATIENCE_S: Final = 10.0


class EmbeddedKubelet:
    """One node's kubelet in ``kubelet_dir``. Use as ``async with``, or ``start`` and ``stop``.

    ``read_node`` says what device node is at a path, ``rng`` makes the choices that the real one makes at random
    (where there is a ``chance``, that does), ``numa_nodes`` are those it knows, ``policy`` and ``scope`` are its
    topologyManagerPolicy and -Scope, ``age`` is its release.
    """

    def __init__(
        self,
        kubelet_dir: Path,
        *,
        read_node: NodeReader,
        rng: random.Random,
        numa_nodes: Sequence[int] = (0, 1),
        policy: Policy = "best-effort",
        scope: Scope = "container",
        chance: Chance | None = None,
        age: Age = KUBELET_1_34,
    ) -> None:
        self._kubelet_dir = kubelet_dir
        self._chance = chance or Luck(rng)
        self._topology, self._age = (policy, scope, tuple(numa_nodes)), age
        self._pods = NodePods(read_node, finds_restarted=age.finds_restarted)
        self._pod_loop = asyncio.Lock()
        self._changes = asyncio.Condition()
        self._run = self._new_run()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Deletes all sockets in device-plugins, then serves there; pods are as yet unknown. Raises OSError."""
        self._run = self._new_run()
        self._pods.kubelet_starts()
        await self._run.start()
        await self._notify()

    async def stop(self) -> None:
        """Ends as on SIGTERM: streams are cut, kubelet.sock stays as a dead file, pods run on."""
        await self._run.stop()

    async def restart(self, before: Callable[[], bool] | None = None) -> dict[str, Failed]:
        """Stops, starts, waits until ``before`` holds, then admits the pods again, as the real one after 1.2 s.

        Plugins must register anew, in time if ``before`` says so, and else too late. Returns as ``readmit``.
        """
        await self.stop()
        await self.start()
        if before is not None:
            await self.until(before)
        return await self.readmit()

    async def reboot(self, before: Callable[[], bool] | None = None) -> dict[str, Failed]:
        """The same for the whole machine: pods that are admitted start anew, from the answers that were kept."""
        self.lose_containers()
        return await self.restart(before)

    def lose_containers(self) -> None:
        """All containers end, as with the machine's power; their pods start once they are admitted again."""
        for each in self._pods:
            each.worker.forget()

    async def readmit(self) -> dict[str, Failed]:
        """Admits the pods of before again; returns those that this kills. Raises KubeletCrashedError.

        Of those that survive, the ones that never started do so now; others go on as they are.
        """
        async with self._pod_loop, self._crashing():
            return await self._readmit()

    @property
    def pods(self) -> dict[str, Outcome]:
        """The last outcome of every pod that was not removed."""
        return self._pods.outcomes

    def uid(self, pod: str) -> str:
        """The UID by which the checkpoint knows a pod. Raises KeyError."""
        return self._pods[pod].pod.uid

    def node_status(self) -> dict[str, ResourceStatus]:
        """Capacity (listed) and allocatable (healthy) by resource; both 0 from a restart to a registration."""
        return self._run.memory.lists.status()

    def status_of(self, resource: str = names.RESOURCE) -> ResourceStatus:
        """The same for one resource, which need not be known."""
        return self.node_status().get(resource, ResourceStatus())

    def listed(self, resource: str = names.RESOURCE) -> tuple[ListedDevice, ...]:
        """The plugin's list as it last came, in its order; empty from a restart to a registration."""
        return tuple(self._run.memory.lists.listed(resource).values())

    async def until(self, predicate: Callable[[], bool], *, timeout_s: float = _PATIENCE_S) -> None:
        """Waits until ``predicate`` holds, looking after each change. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s), self._changes:
            await self._changes.wait_for(predicate)

    async def pass_grace(self) -> None:
        """Five minutes pass: resources whose plugin has gone are no longer in the node's status."""
        self._run.memory.lists.forget_gone()
        await self._run.memory.write()
        await self._notify()

    async def admit(self, asked: PodRequest | Pod) -> Outcome:
        """Schedules, admits and starts a pod, one at a time as in the kubelet's pod loop.

        A pod that waits without seats, or failed, may be asked again. Raises ValueError for one that is here, and
        KubeletCrashedError where an id that was picked has left the list by the time it is dealt.
        """
        pod = asked.pod if isinstance(asked, PodRequest) else asked
        async with self._pod_loop, self._crashing():
            if not self._pods.complete:
                await self._readmit()
            each = self._pods.accept(pod)
            return await self._note(each, self._admit(each))

    async def retry(self, pod: str) -> Outcome:
        """Starts the containers that wait, as the kubelet does every 11 to 15 s. Raises KeyError."""
        async with self._pod_loop:
            return await self._start(self._bound(pod))

    async def restart_container(self, pod: str, container: str | None = None) -> Outcome:
        """Ends a container, the only one if none is named, and starts it anew with the answers that were kept.

        Raises KeyError where the pod is not on the node. After a restart of the kubelet PreStartContainer is
        skipped until the plugin is back, as in the real one.
        """
        await self.crash_container(pod, container)
        return await self.retry(pod)

    async def crash_container(self, pod: str, container: str | None = None) -> None:
        """Ends a container, which then waits in back-off until ``retry``. Raises KeyError."""
        async with self._pod_loop:
            each = self._bound(pod)
            each.worker.end(container)
            each.outcome = each.worker.outcome(self._seats(each))
        await self._notify()

    async def remove(self, pod: str) -> None:
        """The pod has ended, whatever the kubelet does just now; its ids are free at the next allocation.

        Until here a pod holds and counts, also while it terminates. Raises KeyError for an unknown one.
        """
        self._pods.remove(pod)
        await self._notify()

    def _new_run(self) -> KubeletRun:
        return KubeletRun(self._kubelet_dir, self._pods, self._chance, self._topology, self._notify, self._age)

    async def _readmit(self) -> dict[str, Failed]:
        killed = {}
        for each in self._pods:
            if each.counts:
                each.is_taken = True
                refusal = await self._run.topology.admit(each.pod)
                if refusal is not None:
                    each.outcome = killed[each.pod.key] = self._failed(each, refusal)
        self._pods.all_taken()
        for each in self._pods:
            if each.counts and each.worker.is_new:
                await self._start(each)
        await self._notify()
        return killed

    async def _admit(self, each: NodePod) -> Outcome:
        reason = None if each.pod.static else lacking(each.pod, self._beside(each), self.node_status())
        if reason is not None:
            return Pending(pod=each.pod.key, reason=reason)
        each.is_bound = each.is_taken = True
        each.outcome = None
        refusal = await self._run.topology.admit(each.pod)
        refusal = refusal or over_node(each.pod, self._beside(each), self._run.memory.room(each.pod.uid))
        if refusal is not None:
            return self._failed(each, refusal)
        return await each.worker.start(self._run.devices, self._seats(each))

    def _beside(self, each: NodePod) -> list[Pod]:
        return [other.pod for other in self._pods if other.counts and other is not each]

    async def _start(self, each: NodePod) -> Outcome:
        return await self._note(each, each.worker.start(self._run.devices, self._seats(each)))

    def _seats(self, each: NodePod) -> tuple[str, ...]:
        return self._run.devices.seats(each.pod)

    def _failed(self, each: NodePod, refusal: Refusal) -> Failed:
        return Failed(pod=each.pod.key, reason=str(refusal))

    def _bound(self, pod: str) -> NodePod:
        each = self._pods[pod]
        if not each.counts:
            raise KeyError(pod)
        return each

    async def _note(self, each: NodePod, coming: Awaitable[Outcome]) -> Outcome:
        each.outcome = outcome = await coming
        await self._notify()
        return outcome

    @contextlib.asynccontextmanager
    async def _crashing(self) -> AsyncIterator[None]:
        """A kubelet that crashed is gone for everybody, and may be started again."""
        try:
            yield
        except KubeletCrashedError:
            await self.stop()
            raise

    async def _notify(self) -> None:
        async with self._changes:
            self._changes.notify_all()
