"""Knows how the node's kubelet is configured: asks it at the start, behind each of its restarts, and now and then.

It must not keep anybody waiting. What one run of the kubelet has told holds for as long as that run may last, as a
kubelet reads its configuration once.
"""

import asyncio
import contextlib
from typing import Final, Never, Protocol

import msgspec
from structlog.typing import FilteringBoundLogger

from railside_agent.kubelet_client import NotToldError
from railside_agent.own_node import NodeFacts
from railside_proto.record import KubeletFacts, Source
from railside_runtime.cell import Cell
from railside_runtime.pauses import Pauses, jittered

AGAIN_SECONDS: Final = 300.0
FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 60.0
"""Between askings that fail."""

FORGET_SECONDS: Final = 30.0
"""How long what the run before has told is taken to hold for one that does not answer."""


class Client(Protocol):
    """What is needed of a kubelet."""

    async def configuration(self, node: NodeFacts) -> KubeletFacts:
        """What the kubelet of ``node`` tells. Raises NotToldError."""


class KubeletConfig:
    """The configuration of this node's kubelet."""

    def __init__(self, node: Cell[NodeFacts], client: Client, log: FilteringBoundLogger) -> None:
        """Ask through ``client`` where ``node`` says."""
        self.facts: Cell[KubeletFacts] = Cell(KubeletFacts())
        """What is known; with neither source nor detail, nobody was asked yet."""
        self._node = node
        self._client = client
        self._log = log
        self._restarted = asyncio.Event()
        self._doubted_at: float | None = None
        """When the kubelet restarted that has not told anything yet."""

    def ask_again(self) -> None:
        """The kubelet has restarted, and may be configured otherwise. Returns at once."""
        self._restarted.set()

    async def heard(self) -> None:
        """Return when it was asked once, whatever it said."""
        await self.facts.until(lambda facts: facts.source is Source.CONFIGZ or bool(facts.detail))

    async def run(self) -> Never:
        """Ask until cancelled; one that does not answer ever more slowly."""
        pauses = Pauses(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        await self._node.until(lambda node: node.seen)
        while True:
            if self._restarted.is_set():
                self._restarted.clear()
                self._doubted_at = asyncio.get_running_loop().time()
                pauses.begin_anew()
            has_told = await self._ask()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(jittered(AGAIN_SECONDS) if has_told else pauses.next()):
                    await self._restarted.wait()

    async def _ask(self) -> bool:
        """Whether it told."""
        try:
            facts = await self._client.configuration(self._node.value)
        except NotToldError as error:
            self._not_told(str(error))
            return False
        if facts != self.facts.value:
            self._log.info("the kubelet's configuration", **msgspec.to_builtins(facts))
        self.facts.set(facts)
        self._doubted_at = None
        return True

    def _not_told(self, problem: str) -> None:
        since, now = self._doubted_at, asyncio.get_running_loop().time()
        is_past = since is not None and now - since >= FORGET_SECONDS
        if self.facts.value.source is Source.UNKNOWN or is_past:
            self.facts.set(KubeletFacts(detail=problem))
