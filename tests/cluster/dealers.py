"""Who gives pods their HCAs on a node, behind one face: the agent, or a plain plugin that leaves it to chance.

It answers for the order in which containers started, as each of them keeps it. It must not judge what they give.
"""

from typing import Protocol

import msgspec

from harness.devices import Number
from harness.kubectl import HTTP_OK
from installed_agent import NAMESPACE, InstalledAgent
from railside_sim.gpu_plugin import GpuPlugin

Ids = frozenset[str]


class Dealer(Protocol):
    """What traffic asks of it."""

    numbers: dict[str, Number]
    """Numbers of the device nodes, by name."""
    forgets: bool
    """Whether its books drop what an init container was given when the next one has started."""

    def starts(self) -> list[Ids]:
        """The ids of each container that was let start, from the first on."""

    def books(self) -> dict[Ids, set[str]] | None:
        """Device nodes of all ids that it believes in use; None where it keeps no books."""


class PlainPlugin:
    """A plugin whose ids are the HCAs themselves, which the kubelet picks."""

    def __init__(self, plugin: GpuPlugin, numbers: dict[str, Number]) -> None:
        """``plugin`` must be asked at each start."""
        self.numbers = numbers
        self.forgets = True
        self._plugin = plugin

    def starts(self) -> list[Ids]:
        return [frozenset(asked.ids) for asked in self._plugin.asked if asked.call == "start"]

    def books(self) -> None:
        return None


class _Line(msgspec.Struct):
    event: str = ""
    seats: tuple[str, ...] = ()


class Agent:
    """The product, with one pod from the beginning on.

    Where HCAs are given for good, at Allocate, it forgets none of them.
    """

    def __init__(self, agent: InstalledAgent, *, forgets: bool = True) -> None:
        self.numbers = agent.numbers
        self.forgets = forgets
        self._agent = agent
        self._log = f"/api/v1/namespaces/{NAMESPACE}/pods/{agent.pod()}/log"

    def starts(self) -> list[Ids]:
        answer = self._agent.cluster.kubectl.client.get(self._log)
        assert answer.status == HTTP_OK, answer.body
        lines = [msgspec.json.decode(line, type=_Line) for line in answer.body.splitlines()]
        return [frozenset(line.seats) for line in lines if line.event == "container bound"]

    def books(self) -> dict[Ids, set[str]]:
        status = self._agent.status()
        devices = {hca["name"]: hca["uverbs"]["name"] for hca in status["machine"]["hcas"]}
        (pool,) = status["pools"]
        containers = [one for one in pool["containers"] if "/" in one["pod"]]
        return {frozenset(one["seats"]): {devices[name] for name in one["names"]} for one in containers}
