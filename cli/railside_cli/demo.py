"""The demo: the real agent beside an embedded kubelet on a machine of text, told as a short story.

It prints what the kubelet's side answered. It must not show what the agent believes.
"""

import asyncio
import contextlib
import random
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from railside_agent.app import Agent
from railside_agent.settings import Settings
from railside_cli.exit_status import FINDING, FINE, USAGE
from railside_cli.node_picture import legend, marks, node_picture, uverbs
from railside_proto.names import DEVICE_PLUGINS
from railside_runtime.logs import make_logger
from railside_sim.kubelet import EmbeddedKubelet
from railside_sim.manifest import ManifestError, read_manifest
from railside_sim.pods import Outcome, PodRequest, Running
from railside_sim.stand_in_nodes import StandInNodes
from railside_sim.tree import write_tree

FEWEST_HCAS: Final = 4
"""Three for the first two pods, and one to fill up."""

_INTRODUCTION: Final = (
    "The agent runs for real, on the tree of a machine that is only text, beside an embedded kubelet.\n"
    "All below is what that kubelet and its containers saw. The kubelet deals seats of a NUMA node; which HCA a\n"
    "seat means is said when the container starts."
)
_SEED: Final = 20260335
"""The kubelet deals at random inside a NUMA node; the story is told the same way each time."""


def play(manifest: Path, console: Console) -> int:
    """Play the demo on the machine of ``manifest``; return the exit status."""
    try:
        machine = read_manifest(manifest)
        # Short, as a unix socket's path has at most 107 bytes.
        with tempfile.TemporaryDirectory(prefix="railside-") as folder:
            root = Path(folder)
            write_tree(machine, root, make_node=StandInNodes().make)
            return asyncio.run(_play(root, console))
    except (ManifestError, OSError, UnicodeDecodeError) as error:
        console.print(f"railside demo: {escape(str(error))}", style="red")
        return USAGE


async def _play(root: Path, console: Console) -> int:
    kubelet_dir = root / "var/lib/kubelet"
    (kubelet_dir / DEVICE_PLUGINS).mkdir(parents=True)
    rng = random.Random(_SEED)  # noqa: S311 -- a story, not a secret
    async with (
        EmbeddedKubelet(kubelet_dir, read_node=StandInNodes().read, rng=rng) as kubelet,
        _agent(root, kubelet_dir),
    ):
        return await _Story(kubelet, console).tell()


@contextlib.asynccontextmanager
async def _agent(root: Path, kubelet_dir: Path) -> AsyncIterator[None]:
    """The agent as a pod would run it, but for the device nodes: without root nobody can make real ones."""
    settings = Settings(
        root=str(root), host_root=str(root), kubelet_dir=str(kubelet_dir), listen_port=0, mode="ib-shared"
    )
    log = make_logger("error", "auto", sys.stderr.buffer)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(Agent(settings, log, StandInNodes()).run(), name="agent")
        yield
        running.cancel()


class _Story:
    """The steps, one picture each."""

    def __init__(self, kubelet: EmbeddedKubelet, console: Console) -> None:
        self._kubelet = kubelet
        self._console = console
        self._step = 0
        self._never_shared = True

    async def tell(self) -> int:
        """Tell it; return the exit status."""
        self._console.print(_INTRODUCTION)
        self._console.print(legend(self._console), style="dim")
        with contextlib.suppress(TimeoutError):
            await self._kubelet.until(self._offered)
        offered = self._kubelet.status_of().allocatable
        if offered < FEWEST_HCAS:
            sentence = f"This machine offers {offered} HCAs, and the story needs {FEWEST_HCAS}: see railside topo."
            self._console.print(sentence, style="red")
            return USAGE
        self._show("The agent has registered: the kubelet counts this node's HCAs")
        first = await self._admit("train-0", 1)
        self._show("train-0 asks for one HCA, and sees that one alone")
        await self._admit("train-1", 2)
        self._show("train-1 asks for two, and gets both from one NUMA node")
        await self._fill(offered - 3)
        await self._admit("late", 1)
        self._show("All are taken: the pod late has to wait")
        await self._kubelet.remove("train-1")
        late = await self._admit("late", 1)
        self._show("train-1 ends, and late gets an HCA")
        await self._kubelet.restart()
        await self._kubelet.until(self._offered)
        again = await self._kubelet.restart_container("train-0")
        self._show("The kubelet restarts, then train-0's container: it gets the HCA it had")
        return self._judge(first, again, late)

    def _judge(self, first: Outcome, again: Outcome, late: Outcome) -> int:
        """Whether everything came as a user would expect, by what the kubelet's side saw."""
        sound = self._never_shared and again == first and isinstance(late, Running)
        self._console.print()
        if not sound:
            self._console.print("This is not what should have come: please report it.", style="red")
            return FINDING
        self._console.print("No HCA was ever in two pods, and the restart took none away.", style="bold green")
        return FINE

    async def _fill(self, count: int) -> None:
        for number in range(count):
            await self._admit(f"infer-{number}", 1)

    async def _admit(self, name: str, count: int) -> Outcome:
        return await self._kubelet.admit(PodRequest(name=name, count=count))

    def _offered(self) -> bool:
        return self._kubelet.status_of().allocatable > 0

    def _show(self, title: str) -> None:
        self._step += 1
        in_hand = [node for pod in self._kubelet.pods.values() for node in uverbs(pod)]
        self._never_shared &= len(in_hand) == len(set(in_hand))
        self._console.print()
        self._console.rule(f"{self._step}. {title}", align="left", style="dim")
        self._console.print(node_picture(self._kubelet, marks(self._console)))
