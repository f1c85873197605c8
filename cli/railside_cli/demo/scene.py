"""What the steps of the story are made of: pods that come, start again and go, each looked at by the witness.

It joins the stage, the page and the witness. It must not decide what is played, nor what is right.
"""

import asyncio
from typing import Final

from railside_cli.demo.agent_words import Line
from railside_cli.demo.page import Page
from railside_cli.demo.picture import Scene, node_grid, pod_table
from railside_cli.demo.sight import Seen, seen
from railside_cli.demo.stage import Stage
from railside_cli.demo.witness import Moment, Witness
from railside_proto.names import GPU_RESOURCE, RESOURCE
from railside_sim.api_server import Told
from railside_sim.pods import Failed, Outcome, Pending, Running

_WORDS: Final = {RESOURCE: "HCA", GPU_RESOURCE: "GPU"}


class Play:
    """One node's part of the story."""

    def __init__(self, stage: Stage, page: Page) -> None:
        self.stage = stage
        self.page = page
        self.witness = Witness(stage.hardware)
        self.share = 1
        """How many containers may have one HCA, by the label that the story last set."""
        self.kept_out: set[str] = set()
        """HCAs that must not come into new hands."""
        self.marked: set[str] = set()
        """HCAs that the picture shows as ill."""
        self._asked: dict[str, int] = {}

    @property
    def pods(self) -> dict[str, Seen]:
        """What each running pod sees."""
        every = self.stage.kubelet.pods.values()
        return {one.pod: seen(one, self.stage.hardware) for one in every if isinstance(one, Running)}

    def pod(self, name: str) -> Seen:
        """What a pod sees. Raises KeyError where it does not run."""
        return self.pods[name]

    async def come(self, name: str, *, hcas: int = 1, gpus: int = 0) -> Outcome:
        """A pod comes to the node."""
        self._asked[name] = hcas
        outcome = await self.stage.admit(name, hcas=hcas, gpus=gpus)
        self._look_at(outcome)
        return outcome

    async def run(self, name: str, *, hcas: int = 1, gpus: int = 0) -> None:
        """A pod comes that must run."""
        outcome = await self.come(name, hcas=hcas, gpus=gpus)
        self.expect(isinstance(outcome, Running), f"{name} does not run: {why(outcome)}")

    async def wait(self, name: str, *, hcas: int = 1) -> str:
        """A pod comes that must wait for room; the scheduler's sentence."""
        outcome = await self.come(name, hcas=hcas)
        self.expect(isinstance(outcome, Pending) and not outcome.seats, f"{name} did not have to wait")
        return why(outcome)

    async def restart(self, name: str) -> Outcome:
        """A pod's container ends, and the kubelet starts it again."""
        outcome = await self.stage.kubelet.restart_container(name)
        self._look_at(outcome)
        return outcome

    async def start_again(self, name: str) -> None:
        """A waiting container is tried again until it runs."""
        self._look_at(await self.stage.start_again(name, lambda one: isinstance(one, Running)))

    async def end(self, name: str) -> None:
        """A pod ends."""
        await self.stage.remove(name)
        self.witness.ended(name)

    def expect(self, holds: object, sentence: str) -> None:
        """Note a fault unless it holds."""
        self.witness.expect(holds, sentence)

    def nobody_is_hurt(self) -> None:
        """Every pod that ran and has not ended runs on what it had."""
        now = self.pods
        for name in self.witness.known:
            self.witness.still(now.get(name), name)

    async def event(self, kind: str, name: str, code: str) -> Told:
        """An Event about a pod or the node, as soon as the API server has it. Raises TimeoutError."""
        return await self.stage.api.until_told(lambda one: (one.kind, one.name, one.reason) == (kind, name, code))

    async def line(self, event: str, since: int = 0, **fields: object) -> Line:
        """A line of the agent's log, as soon as it is there. Raises TimeoutError."""
        return await self.stage.words.heard(
            lambda one: one.event == event and fields.items() <= one.fields.items(), since
        )

    def counts(self, resource: str = RESOURCE) -> str:
        """What the kubelet counts of a resource."""
        status, held = self.stage.kubelet.status_of(resource), self.held(resource)
        return (
            f"{status.allocatable} {_WORDS[resource]}s to deal out: {held} held, {status.allocatable - held} free"
        )

    def held(self, resource: str = RESOURCE) -> int:
        """How many of the kubelet's ids pods hold."""
        ids = {one.id for one in self.stage.kubelet.listed(resource)}
        pods = self.stage.kubelet.pods.values()
        return len(ids & {seat for pod in pods if not isinstance(pod, Failed) for seat in pod.seats})

    def show(self, *names: str) -> None:
        """The picture of the node, and what some pods see of themselves."""
        pods = self.pods
        scene = Scene(hardware=self.stage.hardware, pods=tuple(pods.values()), marked=frozenset(self.marked))
        self.page.show(node_grid(scene, self.page.signs, self.page.width))
        if names:
            self.page.show(pod_table([pods[name] for name in names], self.page.signs))

    def _look_at(self, outcome: Outcome) -> None:
        if isinstance(outcome, Running):
            pods = self.pods
            now = pods.pop(outcome.pod)
            moment = Moment(share=self.share, others=pods, kept_out=frozenset(self.kept_out))
            self.witness.started(now, self._asked[outcome.pod], moment)


def why(outcome: Outcome) -> str:
    """Why a pod does not run, in the words of the scheduler or the kubelet."""
    return "it runs" if isinstance(outcome, Running) else outcome.reason


def now() -> float:
    """Seconds of the event loop's clock."""
    return asyncio.get_running_loop().time()
