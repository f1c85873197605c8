"""A machine, its kubelet and one plugin, and what can happen to them. It must not judge."""

import asyncio
import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from railside_sim.kubelet import EmbeddedKubelet
from railside_sim.manifest import read_manifest
from railside_sim.pods import Outcome, PodRequest, Running
from railside_sim.stand_in_nodes import StandInNodes
from railside_sim.tree import write_tree

MACHINES: Final = Path(__file__).parent.parent / "machines"
EIGHT_HCAS: Final = "ecs.hpcpni3.45xlarge"

PATIENCE_SECONDS: Final = 15.0
"""For whatever a plugin may take its time for."""

_ASK_SECONDS: Final = 0.05

Numbers = tuple[int, int]


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin's program: ``{root}`` is the machine's tree and ``{kubelet}`` the kubelet's folder."""

    name: str
    command: tuple[str, ...]
    shown: bool = False
    """Whether a person sees what it says of errors."""
    patience_seconds: float = PATIENCE_SECONDS


class Stage:
    """One node. Use ``stage``."""

    def __init__(self, root: Path, kubelet: EmbeddedKubelet, kubelet_dir: Path, plugin: Plugin) -> None:
        self.root = root
        self.kubelet = kubelet
        self.sockets = kubelet_dir / "device-plugins"
        self._kubelet_dir = kubelet_dir
        self._plugin = plugin
        self._process: asyncio.subprocess.Process | None = None

    async def start_plugin(self) -> None:
        """Start the plugin's program."""
        kubelet = str(self._kubelet_dir)
        command = [
            one.replace("{root}", str(self.root)).replace("{kubelet}", kubelet) for one in self._plugin.command
        ]
        self._process = await asyncio.create_subprocess_exec(
            *command,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=None if self._plugin.shown else asyncio.subprocess.DEVNULL,
        )

    @property
    def word_of_plugin(self) -> str:
        """What its program has come to, if that tells anything."""
        ended = self._process.returncode if self._process is not None else None
        return "" if ended is None else f" (the plugin has ended with status {ended})"

    async def kill_plugin(self) -> None:
        """End it as a power cut does; it may have ended by itself."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
        if process is not None:
            await process.wait()

    async def offers(self, count: int) -> bool:
        """Whether, in the end, the kubelet counts ``count`` healthy ids."""
        return await self.comes_to_be(lambda: self.kubelet.status_of().allocatable == count)

    async def comes_to_be(self, holds: Callable[[], bool], *, seconds: float | None = None) -> bool:
        """Whether it holds before the time is up, which is the plugin's own unless told."""
        try:
            await self.kubelet.until(holds, timeout_s=seconds or self._plugin.patience_seconds)
        except TimeoutError:
            return False
        return True

    async def run(self, name: str, count: int = 1) -> Outcome:
        """A pod that asks for HCAs, and what became of it at its first try."""
        return await self.kubelet.admit(PodRequest(name=name, count=count))

    async def run_in_the_end(self, name: str) -> bool:
        """Whether a pod, new or here already, runs before the time is up."""
        outcome = self.kubelet.pods.get(name) or await self.run(name)
        deadline = asyncio.get_running_loop().time() + self._plugin.patience_seconds
        while not isinstance(outcome, Running) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_ASK_SECONDS)
            seats = getattr(outcome, "seats", ())
            outcome = await (self.kubelet.retry(name) if seats else self.run(name))
        return isinstance(outcome, Running)

    # What pods see

    def hands(self) -> dict[str, list[str]]:
        """Pods by the HCA that they have, by its GUID at this moment."""
        owners = self.guids()
        found: dict[str, list[str]] = {}
        for pod, outcome in self.kubelet.pods.items():
            for numbers in set(_numbers(outcome)):
                found.setdefault(owners.get(numbers, "nobody's"), []).append(pod)
        return found

    def numa_node(self, guid: str) -> int:
        """Where an HCA is."""
        device, _ = self._find(guid)
        return int((self.root / "sys/class/infiniband" / device / "device/numa_node").read_text())

    def guids(self) -> dict[Numbers, str]:
        """GUID of each HCA by its device numbers, as the kernel shows them now."""
        found = {}
        for entry in (self.root / "sys/class/infiniband_verbs").glob("uverbs*"):
            device = (entry / "ibdev").read_text().strip()
            guid = self.root / "sys/class/infiniband" / device / "node_guid"
            major, _, minor = (entry / "dev").read_text().strip().partition(":")
            found[int(major), int(minor)] = guid.read_text().strip() if guid.exists() else "gone"
        return found

    # What can happen

    async def unplug(self, guid: str) -> None:
        """An HCA goes from the machine."""
        await asyncio.to_thread(self._unplug, guid)

    def _unplug(self, guid: str) -> None:
        device, entry = self._find(guid)
        (self.root / "dev/infiniband" / entry.name).unlink()
        entry.rename(self.root / entry.name)
        (self.root / "sys/class/infiniband" / device).unlink()

    async def set_port(self, guid: str, state: str) -> None:
        """The only port of an HCA changes: ``4: ACTIVE`` or ``1: DOWN``."""
        device, _ = await asyncio.to_thread(self._find, guid)
        file = self.root / "sys/class/infiniband" / device / "ports/1/state"
        await asyncio.to_thread(file.write_text, f"{state}\n")

    async def boot_the_other_way_round(self, one: str, other: str) -> None:
        """The machine boots: what lay in memory is gone, and two HCAs are probed in the other order."""
        self.kubelet.lose_containers()
        await asyncio.to_thread(shutil.rmtree, self.root / "run", ignore_errors=True)
        await asyncio.to_thread(self._swap, one, other)

    def _swap(self, one: str, other: str) -> None:
        """Each function has the other's uverbs entry below it, with its number and under its name."""
        links = [self._find(guid)[1] for guid in (one, other)]
        folders = [link.resolve() for link in links]
        names = [(folder / "ibdev").read_text() for folder in folders]
        places = [folder.parent for folder in reversed(folders)]
        for link, folder, place, name in zip(links, folders, places, reversed(names), strict=True):
            folder.rename(place / folder.name)
            (place / folder.name / "ibdev").write_text(name)
            link.unlink()
            link.symlink_to(place / folder.name)

    def _find(self, guid: str) -> tuple[str, Path]:
        """Name of an HCA, and its entry of class/infiniband_verbs."""
        for entry in (self.root / "sys/class/infiniband_verbs").glob("uverbs*"):
            device = (entry / "ibdev").read_text().strip()
            shown = self.root / "sys/class/infiniband" / device / "node_guid"
            if shown.exists() and shown.read_text().strip() == guid:
                return device, entry
        raise LookupError(guid)


def _numbers(outcome: Outcome) -> Iterator[Numbers]:
    if isinstance(outcome, Running):
        for container in outcome.containers:
            nodes = (one.node for one in container.devices if "uverbs" in one.path)
            yield from ((node.major, node.minor) for node in nodes)


@asynccontextmanager
async def stage(plugin: Plugin, machine: str = EIGHT_HCAS, *, starts: bool = True) -> AsyncIterator[Stage]:
    """A node with ``machine``'s tree and a kubelet, on which ``plugin`` runs, if it ``starts``."""
    with tempfile.TemporaryDirectory(prefix="rc-") as folder:
        root, kubelet_dir = Path(folder) / "machine", Path(folder) / "k"
        manifest = await asyncio.to_thread(read_manifest, MACHINES / f"{machine}.machine")
        await asyncio.to_thread(write_tree, manifest, root, make_node=StandInNodes().make)
        rng = random.Random(1)  # noqa: S311 -- a repeatable choice
        async with EmbeddedKubelet(kubelet_dir, read_node=StandInNodes().read, rng=rng) as kubelet:
            made = Stage(root, kubelet, kubelet_dir, plugin)
            try:
                if starts:
                    await made.start_plugin()
                yield made
            finally:
                await made.kill_plugin()
