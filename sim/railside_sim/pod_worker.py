"""One pod's containers: started in order, restarted, ended; what each saw at its last start.

It answers for the order of starts and the words for what holds one up (pkg/kubelet/kuberuntime), in a kubelet that
tries again only when told to. It must not admit anything.
"""

import asyncio
import enum

from railside_sim.device_manager import DeviceManager
from railside_sim.plugin_client import PluginError
from railside_sim.pod_spec import ContainerSpec, Pod
from railside_sim.pods import Outcome, Pending, Running, Started
from railside_sim.run_options import merged
from railside_sim.runtime import CannotCreate, Container, NodeReader, create_container

_BACK_OFF = "CrashLoopBackOff: back-off 5m0s restarting failed container"


class Phase(enum.Enum):
    """Where a container is."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


class ContainerState:
    """One container: its phase, how often it started, what it saw then, and why it waits."""

    def __init__(self, spec: ContainerSpec) -> None:
        self.spec = spec
        self.phase = Phase.WAITING
        self.starts = 0
        self.seen = Started(name=spec.name)
        self.reason = "ContainerCreating"

    def is_found(self, *, also_restarted: bool) -> bool:
        """Whether a kubelet that starts now knows it for running; of one that was restarted not each does."""
        return self.phase is Phase.RUNNING and (also_restarted or self.starts == 1)


class PodWorker:
    """The containers of an admitted pod. ``pod`` has its UID."""

    def __init__(self, pod: Pod, read_node: NodeReader) -> None:
        self.pod = pod
        self._read_node = read_node
        self._states = {container.name: ContainerState(container) for container in pod.in_order()}

    def found_running(self, container: str, *, also_restarted: bool) -> bool:
        """Whether a kubelet that starts now takes the container for running."""
        return self._states[container].is_found(also_restarted=also_restarted)

    @property
    def is_new(self) -> bool:
        """Whether nothing of the pod has ever started."""
        return not any(state.starts for state in self._states.values())

    def forget(self) -> None:
        """The machine went down: no container has ever started."""
        self._states = {container.name: ContainerState(container) for container in self.pod.in_order()}

    async def start(self, devices: DeviceManager, seats: tuple[str, ...]) -> Outcome:
        """Starts what waits: init containers one after the other, then all others, whatever becomes of each."""
        for container in self.pod.init_containers:
            state = self._states[container.name]
            if state.phase is Phase.WAITING and not await self._create(state, devices):
                return self.outcome(seats)
        for container in self.pod.containers:
            if self._states[container.name].phase is Phase.WAITING:
                await self._create(self._states[container.name], devices)
        return self.outcome(seats)

    def end(self, container: str | None, reason: str = _BACK_OFF) -> None:
        """A container's process ends; it waits for its next start. Raises KeyError, ValueError."""
        state = self._states[container or self._only]
        if state.phase is Phase.RUNNING:
            state.phase = Phase.WAITING
            state.reason = reason

    def outcome(self, seats: tuple[str, ...]) -> Outcome:
        """What the pod is now."""
        waiting = [state.reason for state in self._states.values() if state.phase is Phase.WAITING]
        if waiting:
            return Pending(pod=self.pod.key, reason=waiting[0], seats=seats)
        return Running(
            pod=self.pod.key,
            init=tuple(self._states[container.name].seen for container in self.pod.init_containers),
            containers=tuple(self._states[container.name].seen for container in self.pod.containers),
        )

    @property
    def _only(self) -> str:
        (only,) = self.pod.containers
        return only.name

    async def _create(self, state: ContainerState, devices: DeviceManager) -> bool:
        try:
            await devices.pre_start(self.pod, state.spec)
        except PluginError as error:
            state.reason = f"CreateContainerConfigError: {error}"
            return False
        answer = merged(devices.answers(self.pod, state.spec))
        match await asyncio.to_thread(create_container, answer, self._read_node):
            case CannotCreate(reason):
                state.reason = f"CreateContainerError: {reason}"
                return False
            case Container() as made:
                ids = devices.ids(self.pod, state.spec)
                state.seen = Started(
                    name=state.spec.name, ids=ids, devices=made.devices, mounts=made.mounts, envs=made.envs
                )
                state.starts += 1
                state.phase = Phase.ENDED if self.pod.is_ending(state.spec) else Phase.RUNNING
                return True
