"""The stage: a machine of text with its kubelet, its GPUs' plugin, its API server, and the real agent on it.

It plays what happens on a node. It must not tell the story, nor judge what comes.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from railside_agent.app import Agent
from railside_agent.settings import Settings
from railside_cli.demo.agent_words import PATIENCE_SECONDS, AgentWords
from railside_cli.demo.hardware import Card, Hardware, hardware
from railside_proto.machine import PortState
from railside_proto.names import DEVICE_PLUGINS, GPU_RESOURCE, MODE_LABEL, RESOURCE
from railside_proto.pool import Mode
from railside_runtime.logs import make_logger
from railside_sim.api_server import ApiServer
from railside_sim.gpu_plugin import GpuPlugin
from railside_sim.kubelet import EmbeddedKubelet
from railside_sim.parts import Manifest
from railside_sim.pod_spec import ContainerSpec, Pod
from railside_sim.pods import Failed, Outcome, Pending
from railside_sim.stand_in_nodes import StandInNodes
from railside_sim.tree import write_tree

SHARES: Final = 2
"""Containers that one HCA may serve in ib-shared-multi here: the default, 16, would fill the screen."""

RECOVERY_SECONDS: Final = 2.0
"""How long an HCA must be well before it comes into new hands; the default is 10 s."""

_SEED: Final = 20260335
"""The kubelet deals at random inside a NUMA node; the story is told the same way each time."""

_TRY_AGAIN_SECONDS: Final = 0.2
"""The real kubelet tries a container that waits again after 11 to 15 s."""


class Stage:
    """One node. The parts are for the story to use."""

    def __init__(self, root: Path, manifest: Manifest, kubelet: EmbeddedKubelet, api: ApiServer) -> None:
        self.root = root
        self.kubelet = kubelet
        self.api = api
        self.hardware: Hardware = hardware(manifest)
        self.words = AgentWords()
        self.kubelet_dir = root / "var/lib/kubelet"
        self.gpus = GpuPlugin(
            self.kubelet_dir / DEVICE_PLUGINS, {one.key: _numa(one) for one in self.hardware.gpus}
        )
        self._admitted = 0

    @contextlib.asynccontextmanager
    async def agent(self) -> AsyncIterator[None]:
        """The agent as a pod would run it, but for the device nodes: without root nobody can make real ones."""
        kubeconfig = self.root / "kubeconfig"
        await asyncio.to_thread(kubeconfig.write_text, self.api.kubeconfig())
        settings = Settings(
            root=str(self.root),
            host_root=str(self.root),
            kubelet_dir=str(self.kubelet_dir),
            listen_port=0,
            node_name=NODE,
            kubeconfig=str(kubeconfig),
            # Nobody would read it.
            publish="never",
            shares_per_hca=SHARES,
            recovery_seconds=RECOVERY_SECONDS,
            resync_seconds=1,
            tombstone_seconds=1,
        )
        agent = await asyncio.to_thread(Agent, settings, make_logger("info", "json", self.words), StandInNodes())
        running = asyncio.create_task(agent.run(), name="agent")
        try:
            yield
        finally:
            running.cancel()
            # What broke the agent is told in place of what the story missed because of it.
            with contextlib.suppress(asyncio.CancelledError):
                await running

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds at the kubelet. Raises TimeoutError."""
        await self.kubelet.until(holds, timeout_s=PATIENCE_SECONDS)

    async def until_offered(self, count: int) -> None:
        """Wait until the kubelet could deal ``count`` HCAs, held ones among them. Raises TimeoutError."""
        await self.until(lambda: self.kubelet.status_of().allocatable == count)

    async def admit(self, name: str, *, hcas: int = 1, gpus: int = 0) -> Outcome:
        """A pod of one container comes to the node, or waits for room."""
        self._admitted += 1
        requests = {RESOURCE: hcas, GPU_RESOURCE: gpus}
        container = ContainerSpec(requests={key: count for key, count in requests.items() if count})
        pod = Pod(name=name, uid=f"{self._admitted:08x}-0000-4000-8000-000000000000", containers=(container,))
        await self.api.put_pod(pod)
        outcome = await self.kubelet.admit(pod)
        if isinstance(outcome, Pending) and not outcome.seats:
            # No node has it yet, so that no agent sees it.
            await self.api.end_pod(name)
        return outcome

    async def remove(self, name: str) -> None:
        """A pod ends."""
        await self.kubelet.remove(name)
        await self.api.end_pod(name)

    async def start_again(self, name: str, holds: Callable[[Outcome], bool]) -> Outcome:
        """Have the kubelet try a waiting container again until it holds; the outcome of the last try."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                outcome = await self.kubelet.retry(name)
                if holds(outcome):
                    return outcome
                await asyncio.sleep(_TRY_AGAIN_SECONDS)

    async def restart_kubelet(self) -> dict[str, Failed]:
        """Restart it; who was killed by that. All plugins have to register anew."""
        await self.kubelet.stop()
        await self.kubelet.start()
        await self.gpus.end()
        await self.gpus.serve_and_register()
        await self.until(lambda: all(self.kubelet.status_of(one).allocatable for one in (RESOURCE, GPU_RESOURCE)))
        return await self.kubelet.readmit()

    async def set_port(self, hca: str, state: PortState) -> None:
        """What the kernel says of an HCA's port from now on."""
        await self.write(f"sys/class/infiniband/{hca}/ports/1/state", f"{state.number}: {state}\n")

    async def write(self, path: str, text: str) -> None:
        """A file of the machine says something else from now on."""
        await asyncio.to_thread((self.root / path).write_text, text)

    async def label(self, mode: Mode) -> None:
        """Somebody labels the node."""
        await self.api.label(MODE_LABEL, mode.value)


NODE: Final = "node-0"


@contextlib.asynccontextmanager
async def stage(manifest: Manifest, folder: Path) -> AsyncIterator[Stage]:
    """A node of its own below ``folder``, without an agent as yet. Raises ManifestError, OSError."""
    await asyncio.to_thread(write_tree, manifest, folder, make_node=StandInNodes().make)
    kubelet_dir = folder / "var/lib/kubelet"
    await asyncio.to_thread((kubelet_dir / DEVICE_PLUGINS).mkdir, parents=True)
    rng = random.Random(_SEED)  # noqa: S311 -- a story, not a secret
    async with (
        EmbeddedKubelet(kubelet_dir, read_node=StandInNodes().read, rng=rng) as kubelet,
        ApiServer(NODE, {MODE_LABEL: Mode.IB_SHARED.value}) as api,
    ):
        made = Stage(folder, manifest, kubelet, api)
        await made.gpus.serve_and_register()
        try:
            yield made
        finally:
            await made.gpus.end()


def _numa(card: Card) -> int | None:
    return card.place.numa_node
