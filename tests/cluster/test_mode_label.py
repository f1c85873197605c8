"""The node's label on real programs: it picks the mode at once, and no pod is hurt by its change.

It answers for what the real API server, scheduler and kubelet make of it. It must not test each decision.
"""

from collections import Counter
from collections.abc import Iterator

import pytest

from harness import waiting
from harness.cluster import Cluster
from harness.kubectl import Kubectl
from harness.kubelet import NodeSettings
from harness.objects import Pod
from installed_agent import HARDWARE, InstalledAgent, installed_agent
from railside_proto.names import MODE_LABEL, RESOURCE
from test_document import (
    end_first_process,
    example_pod,
    is_refused,
    main_container,
    remove,
    running,
    uverbs_inside,
)

N = 2
SHARES = 8 * N


@pytest.fixture(scope="module")
def agent(cluster: Cluster) -> Iterator[InstalledAgent]:
    """The agent on a node that has the hardware and no mode."""
    settings = NodeSettings(numa=2, policy="best-effort", labels=HARDWARE)
    with installed_agent(cluster, settings, RAILSIDE_AGENT_SHARES_PER_HCA=str(N)) as installed:
        yield installed


def label(agent: InstalledAgent, mode: str | None) -> None:
    """Put the label on the node, or take it off."""
    change = f"{MODE_LABEL}-" if mode is None else f"{MODE_LABEL}={mode}"
    agent.cluster.kubectl("label", "node", agent.node.name, "--overwrite", change)


def allocatable(agent: InstalledAgent, count: int) -> None:
    """Return when the node has ``count`` to give."""
    agent.await_allocatable(count, timeout_s=30)


def test_without_the_label_nothing_is_registered(agent: InstalledAgent) -> None:
    """An agent on a node that nobody chose a mode for is ready, offers nothing, and says why."""
    status = agent.status()

    assert status["notReady"] == []
    assert status["nothingOffered"]["code"] == "NoModeLabel"
    assert not agent.pool()["registration"]["registered"]


def test_the_label_switches_the_mode_under_pods(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """Both modes and back, live: pods keep their HCAs, new ones start at once, no share is exceeded (B-DP-32)."""
    label(agent, "ib-shared")
    allocatable(agent, 8)
    with running(kubectl, "first"):
        before = main_container(kubectl.wait(Pod, "first", lambda pod: pod.running)).container_id
        own = uverbs_inside(kubectl, "first")
        label(agent, "ib-shared-multi")
        allocatable(agent, SHARES)
        with running(kubectl, "second", "third"):
            label(agent, "ib-shared")
            # Three seats are held; each HCA that nobody holds has one more.
            busy = {own, uverbs_inside(kubectl, "second"), uverbs_inside(kubectl, "third")}
            allocatable(agent, 3 + 8 - len(busy))
        waiting.until(lambda: len(agent.containers()) == 1, "one container to be left")
        allocatable(agent, 8)
        end_first_process(kubectl, "first")
        after = kubectl.wait(Pod, "first", lambda pod: pod.running and main_container(pod).restart_count == 1)

        assert before != main_container(after).container_id
        assert own == uverbs_inside(kubectl, "first")


def test_each_hca_serves_n_containers_and_no_more(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """In ib-shared-multi pods of a NUMA node share HCAs only when each has one, and at most two by two."""
    label(agent, "ib-shared-multi")
    allocatable(agent, SHARES)
    # The kubelet fills the first NUMA node before it takes of the second: four HCAs, eight seats.
    first, then = [f"first-{number}" for number in range(4)], [f"then-{number}" for number in range(12)]
    with running(kubectl, *first):
        alone = Counter(uverbs_inside(kubectl, name) for name in first)
        with running(kubectl, *then):
            shared = alone + Counter(uverbs_inside(kubectl, name) for name in then)
            kubectl.apply(example_pod("late"))
            try:
                waits = kubectl.wait(Pod, "late", is_refused)
            finally:
                remove(kubectl, "late")

    assert set(alone.values()) == {1}
    assert set(shared.values()) == {N}
    assert f"Insufficient {RESOURCE}" in waits.status.conditions[0].message


def test_a_label_that_goes_leaves_what_is_held(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """Without its label a node offers what is held and no more; an unknown value changes nothing and is told."""
    label(agent, "ib-shared")
    allocatable(agent, 8)
    with running(kubectl, "holder"):
        label(agent, "ib-exclusive")
        waiting.until(lambda: agent.pool()["mode"]["reason"] is not None, "the value to be seen")
        told = agent.pool()["mode"]
        label(agent, None)
        allocatable(agent, 1)
        end_first_process(kubectl, "holder")
        kubectl.wait(Pod, "holder", lambda pod: pod.running and main_container(pod).restart_count == 1)

    assert (told["mode"], told["reason"]["code"]) == ("ib-shared", "ModeLabelUnknown")
    waiting.until(lambda: not agent.pool()["registration"]["registered"], "the agent to let go")
