"""Kubelet and agent restart in any order, under pods that come and go; each round ends with what must hold.

It answers for the rounds. How many there are is for the tests to say, and for the proof.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from harness import waiting
from harness.cluster import Cluster
from harness.kubectl import Kubectl
from harness.objects import Pod
from installed_agent import DOCUMENT_NODE, HCAS, NAMESPACE, InstalledAgent, document_agent
from moments import Moments, allocatable
from test_document import example_pod, main_container, remove, uverbs_inside, with_init_container
from test_life_cycle import lets_in

BUSY = 6
#: A kubelet that does not let a container wait that was killed again and again, so that there can be many rounds.
IMPATIENT = {
    "featureGates": {"KubeletCrashLoopBackOffMax": True},
    "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
}


@contextmanager
def impatient_agent(cluster: Cluster, **environment: str) -> Iterator[InstalledAgent]:
    """The agent on a node of the document, whose kubelet never lets a container wait for long."""
    with document_agent(cluster, replace(DOCUMENT_NODE, kubelet=IMPATIENT), **environment) as agent:
        yield agent


class Rounds:
    """Rounds on one node: ``rng`` says which pods come and go."""

    def __init__(self, agent: InstalledAgent, rng: random.Random, moments: Moments) -> None:
        self._agent = agent
        self._kubectl: Kubectl = agent.cluster.kubectl
        self._rng = rng
        self._moments = moments
        self._made = 0
        self.pods: dict[str, tuple[str, str]] = {}
        """Container and device node of each pod that runs."""

    @property
    def steps(self) -> list[Callable[[], None]]:
        """One of each kind."""
        return [self.kubelet_stops, self.agent_is_killed, self.kubelet_is_killed, self.agent_is_replaced]

    def play(self, *steps: Callable[[], None]) -> None:
        """In each round a pod comes or goes, then the step is done, and everybody is as before."""
        for step in steps:
            self._churn()
            step()
            self._all_is_well()

    def end(self) -> None:
        """All pods go."""
        if self.pods:
            remove(self._kubectl, *self.pods)

    def kubelet_stops(self) -> None:
        """It is told to end, and starts."""
        self._restart_kubelet(self._agent.node.kubelet.stop)

    def kubelet_is_killed(self) -> None:
        """It ends at once, and starts."""
        self._restart_kubelet(self._agent.node.kubelet.kill)

    def agent_is_killed(self) -> None:
        """Its process is, and the kubelet starts the container anew."""
        killed = self._agent.process()
        since = time.time()
        os.kill(killed, signal.SIGKILL)
        self._moments.take("agent killed to allocatable", lambda: self._serves_after(killed), since)

    def agent_is_replaced(self) -> None:
        """Its pod is deleted, and another comes."""
        old = self._agent.process()
        since = time.time()
        self._kubectl("delete", "pod", "-n", NAMESPACE, self._agent.pod(), "--wait=false")
        self._moments.take("agent's pod deleted to allocatable", lambda: self._serves_after(old), since)
        self._moments.note("agent's process started to allocatable", age_seconds(self._agent.process()))

    def _restart_kubelet(self, end: Callable[[], None]) -> None:
        end()
        since = time.time()
        self._agent.node.kubelet.launch()
        self._moments.take("kubelet started to allocatable", self._is_whole, since)
        self._agent.node.kubelet.await_ready()

    def _churn(self) -> None:
        """A pod comes, with an init container or without; from the sixth on the oldest goes first."""
        if len(self.pods) >= BUSY:
            oldest = next(iter(self.pods))
            del self.pods[oldest]
            remove(self._kubectl, oldest)
        self._made += 1
        name = f"round-{self._made}"
        pod = example_pod(name)
        self._kubectl.apply(with_init_container(pod) if self._rng.random() < 0.5 else pod)
        self.pods[name] = self._seen(name)

    def _all_is_well(self) -> None:
        """Nobody's container is another, nobody has another's HCA, and each has what the agent says."""
        self._agent.await_streams(1)
        for name, before in self.pods.items():
            assert before == self._seen(name), name
        names = self._agent.hca_names()
        inside = {f"default/{name}": [names[uverbs]] for name, (_, uverbs) in self.pods.items()}
        assert len({uverbs for _, uverbs in self.pods.values()}) == len(self.pods)
        waiting.until(lambda: inside.items() <= self._agent.containers().items(), "the agent to name the pods")

    def _seen(self, name: str) -> tuple[str, str]:
        """Container and device node of a pod that runs."""
        container = main_container(self._kubectl.wait(Pod, name, lambda pod: pod.running)).container_id
        waiting.until(lambda: lets_in(self._kubectl, name), f"{name} to be entered")
        return container, uverbs_inside(self._kubectl, name)

    def _serves_after(self, old: int) -> bool:
        """Whether another process of the agent than the old one serves."""
        try:
            return self._agent.process() != old and self._is_whole()
        except ValueError:
            return False

    def _is_whole(self) -> bool:
        return allocatable(self._agent.node.kubelet_folder) == HCAS


def age_seconds(pid: int) -> float:
    """How long ago a process started, to a hundredth: by the kernel's count of ticks since its boot."""
    _, _, fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")
    started = int(fields.split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
