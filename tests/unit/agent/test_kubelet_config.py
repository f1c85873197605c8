import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from tests.unit.builders import LogLines
from tests.unit.running import running

from railside_agent.kubelet_client import NotToldError
from railside_agent.kubelet_config import AGAIN_SECONDS, FORGET_SECONDS, KubeletConfig
from railside_agent.own_node import NodeFacts
from railside_proto.record import KubeletFacts, Source, TopologyPolicy
from railside_runtime.cell import Cell

_NODE = NodeFacts(seen=True, address="10.0.0.7")
_RESTRICTED = KubeletFacts(source=Source.CONFIGZ, topology_policy=TopologyPolicy.RESTRICTED)
_NONE = KubeletFacts(source=Source.CONFIGZ, topology_policy=TopologyPolicy.NONE)

pytestmark = pytest.mark.looptime


class _Kubelet:
    """Tells what it is given, or does not answer where that is a sentence."""

    def __init__(self, tells: KubeletFacts | str) -> None:
        self.tells = tells
        self.asked: list[float] = []

    async def configuration(self, node: NodeFacts) -> KubeletFacts:
        assert node == _NODE
        self.asked.append(asyncio.get_running_loop().time())
        if isinstance(self.tells, str):
            raise NotToldError(self.tells)
        return self.tells


class _Desk:
    def __init__(self, written: LogLines, tells: KubeletFacts | str, *, node: NodeFacts = _NODE) -> None:
        self.kubelet = _Kubelet(tells)
        self.node = Cell(node)
        self.config = KubeletConfig(self.node, self.kubelet, written.log)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Cell[KubeletFacts]]:
        async with running(self.config):
            yield self.config.facts

    def restart(self, tells: KubeletFacts | str) -> None:
        self.kubelet.tells = tells
        self.config.ask_again()


async def _pass(seconds: float) -> None:
    """Let time pass."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()


async def test_it_is_asked_as_soon_as_the_node_is_seen(written: LogLines) -> None:
    """Where the kubelet is stands in the Node; before that nobody can be asked."""
    desk = _Desk(written, _RESTRICTED, node=NodeFacts())
    async with desk.running() as facts:
        await _pass(3600)
        assert (desk.kubelet.asked, facts.value) == ([], KubeletFacts())
        desk.node.set(_NODE)
        await desk.config.heard()
        assert facts.value == _RESTRICTED


async def test_it_is_asked_now_and_then(written: LogLines) -> None:
    """What has told once is asked every few minutes, and told of in the log when it is news."""
    desk = _Desk(written, _RESTRICTED)
    async with desk.running():
        await _pass(24 * 3600)
    assert 24 * 3600 / (1.5 * AGAIN_SECONDS) <= len(desk.kubelet.asked) <= 24 * 3600 / (0.5 * AGAIN_SECONDS)
    assert written.events == ["the kubelet's configuration"]


async def test_a_kubelet_that_restarts_is_asked_at_once(written: LogLines) -> None:
    """It may have been configured otherwise."""
    desk = _Desk(written, _RESTRICTED)
    async with desk.running() as facts:
        await desk.config.heard()
        desk.restart(_NONE)
        async with asyncio.timeout(0.1):
            await facts.until(lambda now: now == _NONE)


async def test_a_kubelet_that_does_not_tell_is_asked_ever_more_slowly(written: LogLines) -> None:
    """Its refusal is known at once, costs a question a minute, and ends as soon as it tells."""
    desk = _Desk(written, "the kubelet answered 403")
    async with desk.running() as facts:
        await desk.config.heard()
        assert facts.value == KubeletFacts(detail="the kubelet answered 403")
        await _pass(3600)
        gaps = [later - earlier for earlier, later in pairwise(desk.kubelet.asked)]
        desk.kubelet.tells = _RESTRICTED
        await facts.until(lambda now: now == _RESTRICTED)
    assert gaps[0] < 1
    assert all(30 <= gap <= 91 for gap in gaps[8:])


async def test_what_one_run_has_told_holds(written: LogLines) -> None:
    """A kubelet that does not answer later has the configuration that it had: it reads it once."""
    desk = _Desk(written, _RESTRICTED)
    async with desk.running() as facts:
        await desk.config.heard()
        desk.kubelet.tells = "the kubelet answered 401"
        await _pass(24 * 3600)
        assert facts.value == _RESTRICTED


async def test_what_the_run_before_has_told_holds_for_a_while(written: LogLines) -> None:
    """A restart seldom changes it, and the record need not say in between that nobody knows."""
    desk = _Desk(written, _RESTRICTED)
    async with desk.running() as facts:
        await desk.config.heard()
        desk.restart("the kubelet did not answer")
        await _pass(FORGET_SECONDS - 1)
        assert facts.value == _RESTRICTED
        await _pass(3 * FORGET_SECONDS)
        assert facts.value == KubeletFacts(detail="the kubelet did not answer")
        desk.kubelet.tells = _RESTRICTED
        await facts.until(lambda now: now == _RESTRICTED)
        desk.kubelet.tells = "the kubelet answered 401"
        await _pass(24 * 3600)
        assert facts.value == _RESTRICTED
