"""Plays the demo from its first word to its verdict, and says how it ended.

It must not know what a step does.
"""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from railside_cli.demo import faults, leftovers, pairing, sharing
from railside_cli.demo.hardware import Hardware, hardware
from railside_cli.demo.page import Page
from railside_cli.demo.scene import Play
from railside_cli.demo.stage import stage
from railside_cli.demo.verdict import verdict
from railside_cli.demo.witness import Verdict
from railside_cli.exit_status import FINDING, FINE, USAGE
from railside_sim.api_server import LOOPBACK
from railside_sim.device import KubeletCrashedError
from railside_sim.manifest import ManifestError, read_manifest
from railside_sim.parts import Manifest

_FEWEST: Final = 4
"""GPUs and HCAs of each NUMA node that the story needs."""

_NODES: Final = 2

_NO_PROXY: Final = "no_proxy"


def play(manifest: Path, console: Console) -> int:
    """Play the demo on the machine of ``manifest``; return the exit status."""
    try:
        machine = read_manifest(manifest)
        if not _fits(hardware(machine)):
            _complain(console, f"the story needs {_NODES} NUMA nodes of {_FEWEST} GPUs and {_FEWEST} HCAs each")
            return USAGE
        # Short, as a unix socket's path has at most 107 bytes.
        with tempfile.TemporaryDirectory(prefix="railside-") as folder, _no_proxy():
            return asyncio.run(_told(machine, Path(folder), Page(console)))
    except (ManifestError, OSError, UnicodeDecodeError) as error:
        _complain(console, str(error))
        return USAGE


async def _told(machine: Manifest, folder: Path, page: Page) -> int:
    """The whole story. What never came, or broke the kubelet, is a finding like any other."""
    page.title("Railside, the demo")
    _introduction(page)
    seen: list[Verdict] = []
    lucky, broke = Fraction(0), ""
    try:
        lucky = await _first_node(machine, folder / "a", page, seen)
        await _second_node(machine, folder / "b", page, seen)
    except TimeoutError:
        broke = f"what {page.heading!r} waits for never came"
    except KubeletCrashedError as error:
        broke = f"the kubelet crashed: {error}"
    except ExceptionGroup as error:
        broke = f"the agent broke: {'; '.join(map(repr, error.exceptions))}"
    except (LookupError, OSError) as error:
        broke = f"{page.heading!r} could not go on: {error!r}"
    return concluded(page, seen, lucky, broke)


def concluded(page: Page, seen: Sequence[Verdict], lucky: Fraction, broke: str) -> int:
    """Say the verdict; return the exit status."""
    page.title("The verdict")
    sound, sentences = verdict(seen, lucky, broke)
    page.close(sentences, style="bold green" if sound else "bold red")
    return FINE if sound else FINDING


async def _first_node(machine: Manifest, folder: Path, page: Page, seen: list[Verdict]) -> Fraction:
    async with stage(machine, folder) as node, node.agent():
        told = Play(node, page)
        try:
            await pairing.registration(told)
            lucky = await pairing.gpus_with_hcas(told) + await pairing.two_of_one_node(told)
            await pairing.all_taken(told)
            dead = await faults.an_hca_dies(told)
            await faults.its_container_restarts(told)
            await faults.another_gets_free(told, dead)
            await faults.it_comes_back(told, dead)
            await faults.the_kubelet_restarts(told)
            await sharing.shared(told)
            await sharing.no_longer_shared(told)
        finally:
            seen.append(told.witness.verdict)
    return lucky


async def _second_node(machine: Manifest, folder: Path, page: Page, seen: list[Verdict]) -> None:
    async with stage(machine, folder) as node:
        told = Play(node, page)
        try:
            broken = await leftovers.before_the_agent(told)
            async with node.agent():
                await leftovers.a_leftover_pod(told, broken)
                await leftovers.a_broken_card(told, broken)
        finally:
            seen.append(told.witness.verdict)


def _introduction(page: Page) -> None:
    page.say(
        "A pod that trains a model wants the InfiniBand card (HCA) that hangs on the same PCIe switch as its GPU."
        " Kubernetes deals out devices without knowing of switches; Railside's agent sees to it."
    )
    page.say(
        "The agent runs for real here, beside a stand-in for the kubelet, on a machine that is only text. What"
        " stands here as a fact is what that kubelet and the containers saw; what stands behind a bar"
        f" ({page.signs.quote}) are the agent's or Kubernetes' own words."
    )


def _fits(machine: Hardware) -> bool:
    """Whether the story finds the parts that it needs, all sound."""
    zones = [
        sum(one.gpu is not None and one.hca is not None for one in columns) for columns in machine.zones().values()
    ]
    return len(zones) >= _NODES and min(zones) >= _FEWEST


@contextlib.contextmanager
def _no_proxy() -> Iterator[None]:
    """The demo's API server is on this machine, and a proxy that the environment names cannot reach it."""
    before = os.environ.get(_NO_PROXY)
    others = before or os.environ.get(_NO_PROXY.upper(), "")
    os.environ[_NO_PROXY] = f"{others},{LOOPBACK}"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NO_PROXY]
        else:
            os.environ[_NO_PROXY] = before


def _complain(console: Console, sentence: str) -> None:
    console.print(Text(f"railside demo: {sentence}", style="red"), soft_wrap=True)
