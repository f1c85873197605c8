"""What happens to a node in its life, with pods on it: no pod is killed, and none gets another's HCA.

It answers for the agent beside the real kubelet and containerd. It must not test the document's Pod.
"""

import os
import signal
from collections.abc import Iterator

import pytest

from harness import waiting
from harness.cluster import Cluster
from harness.commands import CommandError
from harness.kubectl import Kubectl
from harness.objects import Pod
from installed_agent import NAMESPACE, InstalledAgent, document_agent
from machine_tree import ACTIVE, DOWN, set_port, unplug
from test_document import (
    end_first_process,
    example_pod,
    main_container,
    named,
    remove,
    running,
    uverbs_inside,
)

pytestmark = pytest.mark.timeout(180)

RECOVERY_S = 30
"""For an HCA to be well for ten seconds, and to be seen so."""


@pytest.fixture(scope="module")
def agent(cluster: Cluster) -> Iterator[InstalledAgent]:
    """The agent on a node of the document, which looks at its tree each second: no kernel tells of it."""
    with document_agent(cluster, RAILSIDE_AGENT_RESYNC_SECONDS="1") as installed:
        yield installed


def restarted(kubectl: Kubectl, pod: str, times: int = 1) -> None:
    """End a pod's container, and return when it runs anew."""
    # A kubelet that has just started lets nobody in for a moment.
    waiting.until(lambda: lets_in(kubectl, pod), f"{pod} to be entered")
    end_first_process(kubectl, pod)
    kubectl.wait(Pod, pod, lambda seen: seen.running and main_container(seen).restart_count == times, timeout_s=60)


def lets_in(kubectl: Kubectl, pod: str) -> bool:
    """Whether a program can be run in the pod's container."""
    try:
        kubectl.execute(pod, "true")
    except CommandError:
        return False
    return True


def reasons(kubectl: Kubectl, pod: str) -> set[str]:
    """What Events about a pod say, in one word each."""
    events = kubectl.get("events", "--field-selector", f"involvedObject.name={pod}")
    return {event["reason"] for event in events["items"]}


def test_a_port_goes_down_under_a_pod_and_comes_back(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """The pod runs on and is told, no idle HCA is hidden, its container restarts on another, and all come back."""
    with running(kubectl, "holder") as (before,):
        device = agent.hca_names()[uverbs_inside(kubectl, "holder")]
        set_port(agent.machine.tree, device, DOWN)
        waiting.until(lambda: "NoActivePort" in reasons(kubectl, "holder"), "an Event on the pod")
        agent.await_allocatable(8)
        after = kubectl.wait(Pod, "holder", lambda pod: pod.running)
        restarted(kubectl, "holder")
        other = agent.hca_names()[uverbs_inside(kubectl, "holder")]
        agent.await_allocatable(7)
        set_port(agent.machine.tree, device, ACTIVE)
        agent.await_allocatable(8, timeout_s=RECOVERY_S)

    assert main_container(before).container_id == main_container(after).container_id
    assert device != other


def test_a_free_hca_goes_and_comes_back(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """Seven are offered, seven pods get seven others, and the eighth is offered when it is back."""
    gone = unplug(agent.machine.tree, "uverbs4")
    try:
        agent.await_allocatable(7)
        names = [f"seven-{number}" for number in range(7)]
        with running(kubectl, *names):
            dealt = {uverbs_inside(kubectl, name) for name in names}
    finally:
        gone.plug()
    agent.await_allocatable(8, timeout_s=RECOVERY_S)

    assert dealt == set(agent.numbers) - {"rdma_cm", "uverbs4"}


def test_an_hca_goes_under_a_pod_and_the_kubelet_restarts(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """The kubelet lives and kills nobody; the container that starts anew gets another HCA, and is told why."""
    with running(kubectl, "holder", init=True) as (before,):
        own = uverbs_inside(kubectl, "holder")
        gone = unplug(agent.machine.tree, own)
        try:
            waiting.until(lambda: "HcaGone" in reasons(kubectl, "holder"), "an Event on the pod")
            agent.node.kubelet.restart()
            agent.await_streams(1)
            after = kubectl.wait(Pod, "holder", lambda pod: pod.running)
            restarted(kubectl, "holder")
            other = uverbs_inside(kubectl, "holder")
        finally:
            gone.plug()
    agent.await_allocatable(8, timeout_s=RECOVERY_S)

    assert main_container(before).container_id == main_container(after).container_id
    assert own != other


def test_a_pod_in_the_hosts_network(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """HostNetwork changes nothing: the pod sees its one HCA and no other."""
    pod = example_pod("host-network")
    pod["spec"]["hostNetwork"] = True
    try:
        kubectl.apply(pod)
        kubectl.wait(Pod, "host-network", lambda seen: seen.running)
        own = uverbs_inside(kubectl, "host-network")
        waiting.until(lambda: "default/host-network" in named(agent), "the agent to name the pod")

        assert named(agent)["default/host-network"] == [agent.hca_names()[own]]
    finally:
        remove(kubectl, "host-network")


def test_the_agent_is_killed(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """Behind a kill -9 it knows who has what, and a container that ended meanwhile runs again with its HCA."""
    with running(kubectl, "stays", "ends"):
        had = named(agent)
        inside = {name: uverbs_inside(kubectl, name) for name in ("stays", "ends")}
        os.kill(agent.process(), signal.SIGKILL)
        restarted(kubectl, "ends")
        agent.await_streams(1)

        assert inside == {name: uverbs_inside(kubectl, name) for name in inside}
        waiting.until(lambda: named(agent) == had, "the agent to know its pods")


def test_the_kubelet_starts_before_the_agent(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """Killed together, the kubelet is up first and brings the agent: a pod runs on, and all is offered again."""
    with running(kubectl, "holder") as (before,):
        own = uverbs_inside(kubectl, "holder")
        agent.node.kubelet.kill()
        os.kill(agent.process(), signal.SIGKILL)
        agent.node.kubelet.start()
        waiting.until(lambda: listened_to(agent), "the agent to be back", timeout_s=60)
        agent.await_allocatable(8)
        after = kubectl.wait(Pod, "holder", lambda pod: pod.running)
        restarted(kubectl, "holder")

        assert main_container(before).container_id == main_container(after).container_id
        assert own == uverbs_inside(kubectl, "holder")


def test_the_agent_is_rolled_over(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """A new template replaces the agent under pods: none is hurt, and one that ends gets its HCA again."""
    with running(kubectl, "stays", "ends", init=True) as pods:
        had = named(agent)
        inside = {name: uverbs_inside(kubectl, name) for name in ("stays", "ends")}
        kubectl("set", "env", "-n", NAMESPACE, "daemonset/railside-agent", "RAILSIDE_AGENT_LOG_LEVEL=debug")
        restarted(kubectl, "ends")
        kubectl("rollout", "status", "-n", NAMESPACE, "daemonset/railside-agent", "--timeout=90s")
        agent.await_streams(1)
        after = kubectl.wait(Pod, "stays", lambda pod: pod.running)

        assert main_container(pods[0]).container_id == main_container(after).container_id
        assert inside == {name: uverbs_inside(kubectl, name) for name in inside}
        waiting.until(lambda: named(agent) == had, "the agent to know its pods")


def test_the_api_server_is_away(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """Without it the kubelet restarts, the agent is killed, and each pod keeps its container and its HCA."""
    server = agent.cluster.control_plane.api_server
    with running(kubectl, "holder", init=True) as (before,):
        own = uverbs_inside(kubectl, "holder")
        server.kill()
        try:
            # One that restarts without the API server knows no pods yet, and would not start the agent again.
            os.kill(agent.process(), signal.SIGKILL)
            waiting.until(lambda: not listened_to(agent), "the agent to go")
            waiting.until(lambda: listened_to(agent), "the agent to be back", timeout_s=60)
            agent.node.kubelet.restart()
            waiting.until(lambda: listened_to(agent), "the kubelet to listen", timeout_s=60)
        finally:
            server.start()
        agent.await_allocatable(8, timeout_s=60)
        # When one more pod runs, the kubelet has admitted those of before; schedulers come back slowly.
        kubectl.apply(example_pod("later"))
        kubectl.wait(Pod, "later", lambda pod: pod.running, timeout_s=90)
        after = kubectl.wait(Pod, "holder", lambda pod: pod.running)
        assert own == uverbs_inside(kubectl, "holder")
        remove(kubectl, "later")
    assert main_container(before).container_id == main_container(after).container_id


def listened_to(agent: InstalledAgent) -> bool:
    """Whether the agent answers, and the kubelet listens to it."""
    try:
        return bool(agent.pool()["registration"]["streams"])
    except Exception:  # noqa: BLE001 -- it may be on its way up
        return False


def test_a_kubelet_of_today_lacks_nothing(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """The real kubelet tells and asks all that the agent can use, by what it has done with a pod or more."""
    with running(kubectl, "holder"):
        waiting.until(lambda: agent.status()["kubeletAllocatable"] is not None, "its own account", timeout_s=90)

    assert agent.status()["kubeletLacks"] == []
