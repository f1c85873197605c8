"""An embedded kubelet: real sockets, the device plugin API, and pods that come, go and restart.

It answers for what a plugin would live through with the real one (topologyManagerPolicy best-effort, one node),
and for the scheduler's count before it. It must not know any plugin, nor poll: whoever waits uses ``until``.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from railside_proto import names
from railside_sim.checkpoint import checkpoint
from railside_sim.dealing import Held, deal
from railside_sim.plugin_client import PluginError
from railside_sim.pods import Failed, Outcome, Pending, PodRequest, ResourceStatus, Running
from railside_sim.registry import PluginRegistry
from railside_sim.runtime import CannotCreate, Container, NodeReader, create_container
from railside_sim.selection import ListedDevice, by_affinity

_PATIENCE_S: Final = 10.0


class EmbeddedKubelet:
    """One node's kubelet in ``kubelet_dir``. Use as ``async with``, or ``start`` and ``stop``.

    ``read_node`` says what device node is at a path, ``rng`` makes the choices that the real one makes at random,
    ``numa_nodes`` are those it knows.
    """

    def __init__(
        self,
        kubelet_dir: Path,
        *,
        read_node: NodeReader,
        rng: random.Random,
        numa_nodes: Sequence[int] = (0, 1),
    ) -> None:
        folder = kubelet_dir / names.DEVICE_PLUGINS
        self._checkpoint = folder / names.KUBELET_CHECKPOINT
        self._registry = PluginRegistry(folder, self._notify)
        self._read_node = read_node
        self._rng = rng
        self._numa_nodes = tuple(numa_nodes)
        self._held: dict[str, Held] = {}
        self._pods: dict[str, Outcome] = {}
        self._pod_loop = asyncio.Lock()
        self._changes = asyncio.Condition()

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
        """Deletes all sockets in device-plugins, then serves Registration there. Raises OSError."""
        await self._registry.start()

    async def stop(self) -> None:
        """Ends as on SIGTERM: streams are cut, kubelet.sock stays as a dead file, pods run on."""
        await self._registry.stop()

    async def restart(self) -> None:
        """Stops and starts. Plugins must register anew; pods and their ids survive, as by the checkpoint."""
        await self.stop()
        await self.start()

    @property
    def pods(self) -> dict[str, Outcome]:
        """The last outcome of every pod that was not removed."""
        return dict(self._pods)

    def node_status(self) -> dict[str, ResourceStatus]:
        """Capacity (listed) and allocatable (healthy) by resource; both 0 from a restart to a registration."""
        return {resource: self.status_of(resource) for resource in sorted(self._registry.resources)}

    def status_of(self, resource: str = names.RESOURCE) -> ResourceStatus:
        """The same for one resource, which need not be known."""
        devices = self.listed(resource)
        return ResourceStatus(
            capacity=len(devices),
            allocatable=sum(device.healthy for device in devices),
        )

    def listed(self, resource: str = names.RESOURCE) -> tuple[ListedDevice, ...]:
        """The plugin's list as it last came, in its order; empty from a restart to a registration."""
        plugin = self._registry.plugin(resource)
        return () if plugin is None else plugin.devices

    async def until(self, predicate: Callable[[], bool], *, timeout_s: float = _PATIENCE_S) -> None:
        """Waits until ``predicate`` holds, looking after each change. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s), self._changes:
            await self._changes.wait_for(predicate)

    async def admit(self, request: PodRequest) -> Outcome:
        """Schedules, admits and starts a pod, one at a time as in the kubelet's pod loop.

        A pod that waits without seats, or failed, may be asked again. Raises ValueError for one that has seats.
        """
        async with self._pod_loop:
            if request.name in self._held:
                raise ValueError(f"pod {request.name} is admitted already")
            return await self._note(await self._admit(request))

    async def restart_container(self, pod: str) -> Outcome:
        """Starts the pod's container anew: PreStartContainer, then the runtime with the answer that was kept.

        Raises KeyError where the pod has no seats. After a restart of the kubelet PreStartContainer is skipped
        until the plugin is back, as in the real one.
        """
        async with self._pod_loop:
            return await self._note(await self._start(self._held[pod]))

    async def remove(self, pod: str) -> None:
        """The pod has ended and its ids are free. Raises KeyError for an unknown pod."""
        async with self._pod_loop:
            del self._pods[pod]
            self._held.pop(pod, None)
        await self._notify()

    async def _admit(self, request: PodRequest) -> Outcome:
        plugin = self._registry.plugin(request.resource)
        if plugin is None or self._free(request.resource) < request.count:
            return Pending(
                pod=request.name,
                reason=f"0/1 nodes are available: 1 Insufficient {request.resource}.",
            )
        try:
            near = by_affinity(self._available(request.resource), request.count, self._numa_nodes)
            held = await deal(plugin, request, near, self._rng)
        except PluginError as error:
            reason = f"UnexpectedAdmissionError: Allocate failed due to {error}, which is unexpected"
            return Failed(pod=request.name, reason=reason)
        self._held[request.name] = held
        await self._write_checkpoint(request.resource)
        return await self._start(held)

    async def _start(self, held: Held) -> Outcome:
        pod = held.request.name
        plugin = self._registry.plugin(held.request.resource)
        try:
            if plugin is not None:
                await plugin.pre_start(held.seats)
        except PluginError as error:
            reason = f"CreateContainerConfigError: device plugin PreStartContainer rpc failed with err: {error}"
            return Pending(pod=pod, reason=reason, seats=held.seats)
        match await asyncio.to_thread(create_container, held.answer, self._read_node):
            case CannotCreate(reason):
                return Pending(pod=pod, reason=f"CreateContainerError: {reason}", seats=held.seats)
            case Container() as made:
                return Running(
                    pod=pod,
                    seats=held.seats,
                    devices=made.devices,
                    mounts=made.mounts,
                    envs=made.envs,
                )

    async def _write_checkpoint(self, resource: str) -> None:
        """Written after an allocation, before the start; pods that end leave it as it is, as in the real one."""
        content = checkpoint(self._held.values(), self.listed(resource))
        await asyncio.to_thread(self._checkpoint.write_bytes, content)

    def _taken(self, resource: str) -> frozenset[str]:
        holders = (held for held in self._held.values() if held.request.resource == resource)
        return frozenset(seat for held in holders for seat in held.seats)

    def _available(self, resource: str) -> tuple[ListedDevice, ...]:
        taken = self._taken(resource)
        return tuple(each for each in self.listed(resource) if each.healthy and each.id not in taken)

    def _free(self, resource: str) -> int:
        """As the scheduler counts: what pods ask for counts against allocatable, whether sound or not."""
        return self.status_of(resource).allocatable - len(self._taken(resource))

    async def _note(self, outcome: Outcome) -> Outcome:
        self._pods[outcome.pod] = outcome
        await self._notify()
        return outcome

    async def _notify(self) -> None:
        async with self._changes:
            self._changes.notify_all()
