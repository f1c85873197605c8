"""A node is switched off and on again with pods on it that hold HCAs, and finds its HCAs in another order.

It answers for the agent beside the real kubelet and containerd, for what the kubelet does before any plugin can
run, and for what would be if one ran first. It must not test what a running node lives through.
"""

import json
import sys
from pathlib import Path

import pytest

from harness import waiting
from harness.cluster import Cluster, MakeNode
from harness.commands import CommandError
from harness.kubectl import Kubectl
from harness.node import ClusterNode
from harness.objects import Node, Pod
from harness.services import Service
from installed_agent import (
    InstalledAgent,
    boot_in_another_order,
    document_agent,
    lay_out_machine,
    manifests,
    offered,
)
from railside_proto.names import DEVICE_PLUGINS, KUBELET_CHECKPOINT, MODE_LABEL
from railside_sim import checkpoint
from test_document import example_pod, main_container, remove, running, uverbs_inside
from test_kube import kubeconfig_of

pytestmark = pytest.mark.timeout(240)

BOOT_S = 90
NO_PLUGIN = "Allocate failed due to no healthy devices present"


def test_pods_of_before_fail_and_new_ones_get_what_the_kernel_calls_theirs(
    cluster: Cluster, kubectl: Kubectl
) -> None:
    """The kubelet fails pods with HCAs before any plugin's pod can run; nothing of theirs is left (B-DP-33)."""
    with document_agent(cluster) as agent:
        names = ["before", "steps"]
        try:
            kubectl.apply(*map(example_pod, names))
            for name in names:
                kubectl.wait(Pod, name, lambda pod: pod.running)
            before = agent.hca_names()
            agent.node.lose_power()
            boot_in_another_order(agent.machine)
            agent.node.start()
            failed = [kubectl.wait(Pod, name, _failed, timeout_s=BOOT_S) for name in names]
            kubectl.wait(Node, agent.node.name, lambda node: offered(node) == (8, 8), timeout_s=BOOT_S)
        finally:
            remove(kubectl, *names)
        news = [f"new-{number}" for number in range(8)]
        with running(kubectl, *news):
            inside = {f"default/{name}": uverbs_inside(kubectl, name) for name in news}
            told = agent.hca_names()
            waiting.until(lambda: inside.keys() <= agent.containers().keys(), "the agent to name the pods")
            held = agent.containers()

    assert all(NO_PLUGIN in pod.status.message for pod in failed)
    assert before != told
    assert {pod: [told[uverbs]] for pod, uverbs in inside.items()} == held


def _failed(pod: Pod) -> bool:
    return pod.status.phase == "Failed"


def program(agent: InstalledAgent) -> Service:
    """The agent as a program of the machine, which needs no kubelet to start it."""
    node, tree = agent.node, str(agent.machine.tree)
    settings = {
        "root": tree,
        "hostRoot": tree,
        "nodeName": node.name,
        "kubeconfig": kubeconfig_of(agent.cluster, node.folder, "railside-agent"),
    }
    file = node.folder / "agent.yaml"
    file.write_text(json.dumps(settings), encoding="utf-8")
    words = (Path(sys.executable).with_name("railside-agent"), "run", "--config", file)
    log = node.folder / "log/agent.log"
    return Service("railside-agent", words, log, ready=lambda: answers(agent), inside=node.namespaces)


def answers(agent: InstalledAgent) -> bool:
    """Whether the agent has looked at its machine."""
    try:
        return agent.status()["machine"] is not None
    except CommandError:
        return False


def dealt(node: ClusterNode) -> dict[tuple[str, str], list[str]]:
    """The seats of each pod and container, by what the kubelet keeps on its disk."""
    kept = checkpoint.read(node.kubelet_folder / DEVICE_PLUGINS / KUBELET_CHECKPOINT)
    return {(one.uid, one.container): sorted(one.dealt.ids) for one in kept.entries}


def given(agent: InstalledAgent, *pods: str) -> list[str]:
    """The HCA that each pod sees inside, by its name."""
    names = agent.hca_names()
    return [names[uverbs_inside(agent.cluster.kubectl, pod)] for pod in pods]


def test_pods_live_over_a_boot_where_the_agent_is_there_first(
    cluster: Cluster, node: MakeNode, kubectl: Kubectl
) -> None:
    """With the list there in time pods keep their seats, and start on the HCAs that they had, by other numbers."""
    made = node(numa=2, policy="best-effort", labels={MODE_LABEL: "ib-shared"})
    agent = InstalledAgent(cluster, made, lay_out_machine(made))
    kubectl.apply(*(one for one in manifests(kubectl, agent.machine.tree) if one["kind"] != "DaemonSet"))
    running_agent = program(agent)
    running_agent.start()
    agent.await_offered(8)
    with running(kubectl, "plain"), running(kubectl, "steps", init=True):
        before = dealt(made), given(agent, "plain", "steps"), agent.hca_names()
        running_agent.kill()
        made.lose_power()
        boot_in_another_order(agent.machine)
        running_agent.start()
        made.start()
        for pod in ("plain", "steps"):
            kubectl.wait(Pod, pod, _started_again, timeout_s=BOOT_S)
        after = dealt(made), given(agent, "plain", "steps"), agent.hca_names()
    running_agent.kill()

    assert before[:2] == after[:2]
    assert before[2] != after[2]


def _started_again(pod: Pod) -> bool:
    return pod.running and main_container(pod).restart_count == 1
