"""The extender in the pods that the manifests make of it: beside a scheduler of its own, and beside the cluster's.

It answers for the image, the service accounts and all that a pod is denied. It must not test what becomes of pods
beyond one.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from extended_scheduler import BESIDE, DEDICATED, WORKLOADS, install, objects
from hand_made import HandMade, hand_made, pod
from harness.cluster import Cluster
from harness.kubectl import Kubectl
from harness.kubelet import NodeSettings
from harness.node import ClusterNode
from harness.objects import Pod
from installed_agent import NAMESPACE
from oci import PROGRAM, Entry, write_layer, write_layout

CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane="


@pytest.fixture(scope="module")
def nodes(kubectl: Kubectl) -> Iterator[HandMade]:
    install(kubectl)
    with hand_made(kubectl) as made:
        yield made


@pytest.fixture(scope="module")
def node(cluster: Cluster) -> Iterator[ClusterNode]:
    """A node for the pods."""
    with cluster.node(NodeSettings()) as made:
        yield made


def lay_out_scheduler(folder: Path, reference: str) -> None:
    """Serve an image with the cluster's own kube-scheduler and nothing else, under the name in the manifest."""
    program = shutil.which("kube-scheduler")
    assert program is not None
    layer = folder / "kube-scheduler.tar"
    write_layer(layer, [Entry("bin/kube-scheduler", Path(program).read_bytes(), PROGRAM)])
    write_layout(folder / "kube-scheduler", reference, [layer], {"Env": ["PATH=/bin"]})


def run(kubectl: Kubectl, folder: Path) -> None:
    """Apply a base, and return when its pods are ready."""
    every = objects(kubectl, folder)
    kubectl.apply(*every)
    (workload,) = (f"{one['kind']}/{one['metadata']['name']}".lower() for one in every if one["kind"] in WORKLOADS)
    kubectl("rollout", "status", "-n", NAMESPACE, workload, "--timeout=40s")


@pytest.mark.usefixtures("node")
def test_the_dedicated_scheduler_places_a_pod_from_its_own(
    cluster: Cluster, kubectl: Kubectl, nodes: HandMade
) -> None:
    """Both run without root, capabilities or a folder to write to, and with the rights of their one account."""
    (deployment,) = (one for one in objects(kubectl, DEDICATED) if one["kind"] == "Deployment")
    lay_out_scheduler(cluster.places.images, deployment["spec"]["template"]["spec"]["containers"][0]["image"])
    nodes.add("pods", "pods-whole", gpus=(4, 0), hcas=(4, 0))
    nodes.add("pods", "pods-torn", gpus=(4, 4), hcas=(2, 2))
    try:
        run(kubectl, DEDICATED)
        kubectl.apply(pod("pods", "placed", gpus=4, hcas=4))
        placed = kubectl.wait(Pod, "placed", lambda pod: bool(pod.spec.node_name))
    finally:
        kubectl("delete", "-n", NAMESPACE, "deployment/railside-scheduler", "--cascade=foreground")
    assert placed.spec.node_name == "pods-whole"


@pytest.mark.usefixtures("nodes")
def test_beside_the_clusters_own_it_is_ready_on_the_control_plane(kubectl: Kubectl, node: ClusterNode) -> None:
    """On a machine of the control plane, and on no other, it has read the cluster and is ready on loopback."""
    kubectl("label", "node", node.name, CONTROL_PLANE_LABEL)
    try:
        run(kubectl, BESIDE)
        wanted = kubectl.get("daemonset", "-n", NAMESPACE, "railside-extender")["status"]["desiredNumberScheduled"]
    finally:
        kubectl("delete", "-n", NAMESPACE, "daemonset/railside-extender", "--cascade=foreground")
    assert wanted == 1
