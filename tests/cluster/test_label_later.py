"""A node that joined without the label, and gets it later, as the document says may happen.

It answers for the DaemonSet's choice of nodes and the agent's first list. It must not test modes.
"""

from harness.cluster import Cluster
from harness.kubectl import Kubectl
from harness.kubelet import NodeSettings
from installed_agent import NAMESPACE, installed_agent
from test_mode_label import allocatable, label


def test_a_node_that_gets_its_label_later(cluster: Cluster, kubectl: Kubectl) -> None:
    """A node with neither label nor known hardware has no agent; the label alone brings it, and its HCAs."""
    with installed_agent(cluster, NodeSettings(numa=2, policy="best-effort")) as agent:
        desired = kubectl.get("daemonset", "-n", NAMESPACE, "railside-agent")["status"]["desiredNumberScheduled"]
        label(agent, "ib-shared")
        allocatable(agent, 8)

    assert desired == 0
