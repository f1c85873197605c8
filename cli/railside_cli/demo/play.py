"""Plays the demo from its first word to its verdict, and says how it ended.

It must not know what a step does.
"""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Coroutine, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

from rich.console import Console

from railside_cli.complaint import complain, unreadable
from railside_cli.demo import faults, keepsake, leftovers, pairing, sharing
from railside_cli.demo.machine import machine_for_the_story
from railside_cli.demo.page import Page
from railside_cli.demo.scene import Play
from railside_cli.demo.stage import stage
from railside_cli.demo.verdict import verdict
from railside_cli.demo.witness import Verdict
from railside_cli.exit_status import FINDING, FINE, SIGNALLED, UNREACHABLE, USAGE
from railside_sim.api_server import LOOPBACK
from railside_sim.device import KubeletCrashedError
from railside_sim.parts import Manifest

_NO_PROXY: Final = "no_proxy"

_ENDS: Final = (signal.SIGTERM, signal.SIGHUP)
"""What ends the demo as ctrl-C does: not without its folder being taken away."""


def play(manifest: Path, console: Console, keep: Path | None = None) -> int:
    """Play the demo on the machine of ``manifest``, and keep its recording; return the exit status."""
    machine = machine_for_the_story(manifest)
    problem = machine if isinstance(machine, str) else keep and keepsake.why_not(keep)
    if isinstance(machine, str) or problem:
        complain(str(problem))
        return USAGE
    try:
        # Short, as a unix socket's path has at most 107 bytes.
        with tempfile.TemporaryDirectory(prefix="railside-") as folder, _no_proxy():
            return asyncio.run(_until_told_to_stop(_told(machine, Path(folder), Page(console), keep)))
    except OSError as error:
        complain(unreadable(error))
        return UNREACHABLE


async def _until_told_to_stop(story: Coroutine[None, None, int]) -> int:
    """What ``story`` ends with, or the exit status of the signal that ended it, behind all its cleaning up."""
    loop, telling = asyncio.get_running_loop(), asyncio.ensure_future(story)
    heard: list[int] = []

    def end(number: int) -> None:
        heard.append(number)
        telling.cancel()

    for number in _ENDS:
        # Who started it with nohup wants it to go on.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, end, number)
    try:
        return await telling
    except asyncio.CancelledError:
        if not heard:
            raise
        return SIGNALLED + heard[0]


async def _told(machine: Manifest, folder: Path, page: Page, keep: Path | None) -> int:
    """The whole story. What never came, or broke the kubelet, is a finding like any other. Raises OSError."""
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
    status = concluded(page, seen, lucky, broke)
    if keep is not None:
        await asyncio.to_thread(keepsake.keep, (folder / "a", folder / "b"), keep)
        page.say(f"What both nodes' agents saw and decided is in {keep}: railside replay {keep} decides it again.")
    return status


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
