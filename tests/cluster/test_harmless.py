"""The agent where ``test_harm_*`` has a careless plugin do harm: dead HCAs, and other numbers.

It answers for the agent beside the real kubelet and containerd. It must not repeat what ``test_life_cycle``,
``test_document`` (restarts), ``test_reboot`` and ``test_taking_over`` (foreign ids) have of the other laws.
"""

from collections.abc import Iterator

import pytest

from harness import waiting
from harness.cluster import Cluster
from harness.kubectl import Kubectl
from harness.objects import Node, Pod
from installed_agent import InstalledAgent, document_agent, offered
from machine_tree import ACTIVE, DOWN, set_port, swap_uverbs
from test_document import example_pod, remove, running, uverbs_inside
from test_life_cycle import reasons, restarted

pytestmark = pytest.mark.timeout(240)

PAIR = ("first", "second")


@pytest.fixture(scope="module")
def agent(cluster: Cluster) -> Iterator[InstalledAgent]:
    """The agent on a node of the document, which looks at its tree each second: no kernel tells of it."""
    with document_agent(cluster, RAILSIDE_AGENT_RESYNC_SECONDS="1") as installed:
        yield installed


def swap(agent: InstalledAgent, one: str, other: str) -> None:
    """Exchange the uverbs entries of two HCAs; return when the agent has seen it."""
    names = agent.hca_names()
    swap_uverbs(agent.machine.tree, one, other)
    swapped = {**names, one: names[other], other: names[one]}
    waiting.until(lambda: agent.hca_names() == swapped, "the agent to see other numbers")


def inside(agent: InstalledAgent, *pods: str) -> dict[str, list[str]]:
    """HCAs that the nodes in the pods' containers belong to by now."""
    names = agent.hca_names()
    return {f"default/{pod}": [names[uverbs_inside(agent.cluster.kubectl, pod)]] for pod in pods}


def booked(agent: InstalledAgent, *pods: str) -> dict[str, list[str]]:
    """HCAs that the agent says the pods have."""
    return {pod: hcas for pod, hcas in agent.containers().items() if pod.removeprefix("default/") in pods}


def test_hcas_are_numbered_otherwise_under_pods(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """Law 9: containers that start anew have the HCAs of the books, by the kernel's numbers of that moment."""
    with running(kubectl, *PAIR):
        swap(agent, *(uverbs_inside(kubectl, pod) for pod in PAIR))
        for pod in PAIR:
            restarted(kubectl, pod)
        waiting.until(lambda: booked(agent, *PAIR) == inside(agent, *PAIR), "books and containers to agree")

        assert len({hca for hcas in inside(agent, *PAIR).values() for hca in hcas}) == 2


def test_a_dead_hca_whose_holder_goes(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """Law 8: who waits while all other HCAs are held does not start on the dead one when its holder goes."""
    others = [f"other-{number}" for number in range(7)]
    with running(kubectl, "holder", *others):
        dead = agent.hca_names()[uverbs_inside(kubectl, "holder")]
        set_port(agent.machine.tree, dead, DOWN)
        try:
            waiting.until(lambda: "NoActivePort" in reasons(kubectl, "holder"), "an Event on the pod")
            kubectl.apply(example_pod("waiting"))
            remove(kubectl, "holder")
            waiting.until(lambda: is_withheld(agent, kubectl), "the dead HCA to be withheld")
            pod = kubectl.read(Pod, "waiting")
            remove(kubectl, "waiting")
        finally:
            set_port(agent.machine.tree, dead, ACTIVE)

    assert pod is not None
    assert not any(one.container_id for one in pod.status.container_statuses)


def is_withheld(agent: InstalledAgent, kubectl: Kubectl) -> bool:
    """Whether the dead HCA is no more on offer, or the pod that was sent for it is told that it cannot start."""
    node = kubectl.read(Node, agent.node.name)
    return (node is not None and offered(node)[1] == 7) or "Failed" in reasons(kubectl, "waiting")
