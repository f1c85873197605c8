"""A machine with its embedded kubelet, on which the whole agent starts and is told to stop. It must not judge."""

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from tests.unit.builders import LogLines
from tests.unit.running import free_port

from railside_agent.app import Agent
from railside_agent.settings import Settings
from railside_agent.view import View
from railside_proto.names import DEVICE_PLUGINS, KUBELET_CHECKPOINT
from railside_sim.ages import KUBELET_1_34, Age
from railside_sim.kubelet import EmbeddedKubelet
from railside_sim.pods import PodRequest, Running
from railside_sim.stand_in_nodes import StandInNodes

_SECONDS = 20.0


class LivingNode:
    """Use ``agent`` as a context; ``until`` waits for what its view shows."""

    def __init__(self, root: Path, kubelet: EmbeddedKubelet, kubelet_dir: Path, written: LogLines) -> None:
        self.root = root
        self.kubelet = kubelet
        self.written = written
        self.checkpoint = kubelet_dir / DEVICE_PLUGINS / KUBELET_CHECKPOINT
        self.settings = Settings(
            root=str(root),
            host_root=str(root),
            kubelet_dir=str(kubelet_dir),
            listen_port=free_port(),
            mode="ib-shared",
            resync_seconds=1,
            recovery_seconds=1,
        )
        self._kernel, self.kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.running: asyncio.Task[Any]
        self._agent: Agent

    @contextlib.asynccontextmanager
    async def agent(self, **settings: object) -> AsyncIterator[Agent]:
        """An agent from its start to its end."""
        chosen = msgspec.structs.replace(self.settings, **settings)
        # A twin for each run, as a source is closed with the watch that hears it.
        ours = self._kernel.dup()
        ours.setblocking(False)  # noqa: FBT003 -- the socket's own spelling
        self._agent = await asyncio.to_thread(
            lambda: Agent(chosen, self.written.log, StandInNodes(), open_uevents=lambda: ours)
        )
        self.running = asyncio.create_task(self._agent.run(), name="agent")
        try:
            yield self._agent
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Tell the agent to stop, and see it end; a part that broke is told."""
        self.running.cancel()
        await asyncio.wait([self.running])
        if not self.running.cancelled():
            self.running.result()

    async def until(self, holds: Callable[[View], bool]) -> View:
        """The agent's first view of which it holds; an agent that ends is told at once."""
        async with asyncio.timeout(_SECONDS):
            while not holds(view := self._agent.view()):
                await asyncio.wait([self.running], timeout=0.02)
                assert not self.running.done()
        return view

    async def allocatable(self, count: int) -> None:
        await self.kubelet.until(lambda: self.kubelet.status_of().allocatable == count)

    async def run(self, name: str, count: int = 1) -> Running:
        """A pod that must run."""
        outcome = await self.kubelet.admit(PodRequest(name=name, count=count))
        assert isinstance(outcome, Running), outcome
        return outcome

    def close(self) -> None:
        self._kernel.close()
        self.kernel.close()

    async def set_port(self, device: str, state: str) -> None:
        file = self.root / f"sys/class/infiniband/{device}/ports/1/state"
        await asyncio.to_thread(file.write_text, f"{state}\n")


Kind = TypeVar("Kind", bound=LivingNode)


def device_nodes(pod: Running) -> list[str]:
    """The uverbs nodes in a pod, by name."""
    return [one.path.rpartition("/")[2] for one in pod.devices if "uverbs" in one.path]


@contextlib.asynccontextmanager
async def living_node(
    kind: type[Kind], root: Path, kubelet_dir: Path, written: LogLines, age: Age = KUBELET_1_34
) -> AsyncIterator[Kind]:
    """A node of that kind below ``root``, whose kubelet, of that age, runs."""
    rng = random.Random(1)  # noqa: S311 -- a repeatable choice
    async with EmbeddedKubelet(kubelet_dir, read_node=StandInNodes().read, rng=rng, age=age) as kubelet:
        node = kind(root, kubelet, kubelet_dir, written)
        with contextlib.closing(node):
            yield node
