"""Answers for the harness: what a test on the real cluster may rely on.

It must not test the product.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import cgroups, devices, leftovers, network, node_files, waiting
from harness.api import HttpsClient
from harness.cluster import Cluster, MakeNode
from harness.commands import CommandError
from harness.kubectl import Kubectl
from harness.kubelet import NodeSettings
from harness.node import ClusterNode
from harness.objects import Node, Pod
from harness.places import Places
from railside_proto.names import MODE_LABEL

KUBELET_PORT = 10250


@pytest.fixture(scope="module")
def plain(cluster: Cluster) -> Iterator[ClusterNode]:
    """One ordinary node for the tests that change nothing about it."""
    with cluster.node(NodeSettings(labels={MODE_LABEL: "ib-shared"})) as node:
        yield node


def pod(name: str, node: ClusterNode, *command: str, image: str = "busybox", **spec: object) -> dict[str, object]:
    container = {"name": "main", "image": image, "command": list(command)}
    chosen = {"kubernetes.io/hostname": node.name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "nodeSelector": chosen, "terminationGracePeriodSeconds": 0, **spec},
    }


def started(kubectl: Kubectl, manifest: dict[str, object], name: str) -> Pod:
    kubectl.apply(manifest)
    return kubectl.wait(Pod, name, lambda seen: seen.running)


def test_node_is_ready_with_its_label(plain: ClusterNode, kubectl: Kubectl) -> None:
    """A node is ready for pods when the fixture gives it, and bears the labels asked for."""
    seen = kubectl.read(Node, plain.name)
    assert seen is not None
    assert seen.usable
    assert seen.metadata.labels[MODE_LABEL] == "ib-shared"


def test_pod_of_an_image_without_a_tag(plain: ClusterNode, kubectl: Kubectl) -> None:
    """A pod whose image has no tag is pulled and runs; its log is read and programs run in it."""
    started(kubectl, pod("untagged", plain, "sh", "-c", "echo hello; sleep 1000"), "untagged")
    assert kubectl.wait_log("untagged", "\n") == "hello\n"
    assert kubectl.execute("untagged", "hostname") == "untagged\n"


def test_api_server_answers_pods_on_both_networks(plain: ClusterNode, kubectl: Kubectl) -> None:
    """The API server's service address answers a pod of its own network and one of the node's."""
    call = ("sh", "-c", f"nc {network.API_SERVICE} 443 </dev/null && sleep 1000")
    started(kubectl, pod("bridged", plain, *call), "bridged")
    started(kubectl, pod("hosted", plain, *call, hostNetwork=True), "hosted")


def test_project_image_runs_without_a_shell(plain: ClusterNode, kubectl: Kubectl) -> None:
    """The project's image imports what it was locked with, and holds no program for people."""
    modules = "aiohttp, google.protobuf, grpclib, msgspec, railside_agent, structlog, yaml"
    script = (
        f"import {modules}, importlib.util as u, time; print(u.find_spec('rich'), flush=True); time.sleep(1000)"
    )
    started(kubectl, pod("image", plain, "python3", "-c", script, image="railside/railside:dev"), "image")
    assert kubectl.wait_log("image", "\n") == "None\n"


@pytest.mark.parametrize("graceful", [True, False], ids=["stopped", "killed"])
def test_containers_outlive_the_kubelet(plain: ClusterNode, kubectl: Kubectl, *, graceful: bool) -> None:
    """Ending and starting the kubelet alone leaves the node's containers as they are."""
    before = started(kubectl, pod("survivor", plain, "sleep", "1000"), "survivor")
    containerd = plain.containerd.pid
    end = plain.kubelet.stop if graceful else plain.kubelet.kill
    end()
    assert not plain.kubelet.running
    plain.kubelet.start()
    kubectl("annotate", "pod", "survivor", "seen=again", "--overwrite")
    after = kubectl.wait(Pod, "survivor", lambda seen: seen.running)
    assert plain.containerd.pid == containerd
    assert after.status.container_statuses[0].container_id == before.status.container_statuses[0].container_id
    waiting.until(lambda: runs_programs(kubectl, "survivor"), "the kubelet to serve its pods again")


def runs_programs(kubectl: Kubectl, pod_name: str) -> bool:
    try:
        return kubectl.execute(pod_name, "echo", "alive") == "alive\n"
    except CommandError:
        return False


def test_kubelet_sees_the_numa_nodes(node: MakeNode) -> None:
    """A node made with two NUMA nodes has two for its kubelet, which takes the settings it was given."""
    pinned = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
    made = node(numa=2, policy="single-numa-node", scope="pod", kubelet=pinned)
    log = made.kubelet.log.read_text()
    assert '"NumNUMANodes":2' in log
    assert re.search(r'"Creating topology manager with policy per scope".*"single-numa-node".*"pod"', log)


def test_node_may_not_change_another(plain: ClusterNode, kubectl: Kubectl) -> None:
    """A kubelet's identity changes its own node and is refused any other."""
    as_node = Kubectl(plain.identity.kubeconfig, kubectl.client)
    as_node("annotate", "node", plain.name, "of=itself")
    other = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "other"}}
    kubectl.apply(other)
    with pytest.raises(CommandError, match='is not allowed to modify node "other"'):
        as_node("replace", "--raw", "/api/v1/nodes/other", "-f", "-", stdin=json.dumps(other))
    kubectl("delete", "node", "other")


def kubelet_status(node: ClusterNode, cluster: Cluster, token: str) -> int:
    client = HttpsClient(str(node.address), KUBELET_PORT, cluster.authority.own.crt, token=token)
    return client.get("/pods").status


def test_kubelet_asks_who_may_read_it(plain: ClusterNode, kubectl: Kubectl, cluster: Cluster) -> None:
    """The kubelet's API refuses nobody in particular and a bare service account, and serves one that may."""
    kubectl("create", "serviceaccount", "reader")
    token = kubectl("create", "token", "reader").strip()
    assert kubelet_status(plain, cluster, "") == 401
    assert kubelet_status(plain, cluster, token) == 403
    kubectl("create", "serviceaccount", "allowed")
    kubectl("create", "clusterrole", "kubelets", "--verb=get", "--resource=nodes/proxy")
    kubectl(
        "create", "clusterrolebinding", "kubelets", "--clusterrole=kubelets", "--serviceaccount=default:allowed"
    )
    assert kubelet_status(plain, cluster, kubectl("create", "token", "allowed").strip()) == 200


def test_a_stopped_node_leaves_nothing(cluster: Cluster, kubectl: Kubectl) -> None:
    """A node that ends takes its processes, its cable, its control groups and its object with it."""
    with cluster.node(NodeSettings()) as node:
        started(kubectl, pod("passenger", node, "sleep", "1000"), "passenger")
        assert len(node.namespaces.pids()) > 3
        assert cgroups.existing(node.cgroup)
        wires = set(network.wires())
    assert node.namespaces.pids() == []
    assert wires - set(network.wires()) == {f"wire{node.number}"}
    assert not cgroups.existing(node.cgroup)
    kubectl.wait_gone(Node, node.name)


def test_a_node_that_loses_its_power_boots_again(cluster: Cluster, kubectl: Kubectl) -> None:
    """A boot ends all containers and empties /run, has a name of its own, and the pods run again behind it."""
    with cluster.node(NodeSettings()) as node:
        started(kubectl, pod("passenger", node, "sleep", "1000"), "passenger")
        node.run("touch", "/run/in-memory", "/var/lib/on-disk")
        before = node.run("cat", str(node_files.BOOT_ID))
        node.lose_power()
        assert node.namespaces.pids() == [node.namespaces.first_pid]
        node.start()
        kubectl.wait(Pod, "passenger", lambda seen: seen.running and _restarts(seen) == 1, timeout_s=60)
        assert node.run("sh", "-c", "ls /run/in-memory /var/lib/on-disk 2>/dev/null; true") == "/var/lib/on-disk\n"
        assert node.run("cat", str(node_files.BOOT_ID)) != before


def _restarts(seen: Pod) -> int:
    return sum(one.restart_count for one in seen.status.container_statuses)


def test_stand_in_devices_are_refused_to_containers(plain: ClusterNode, kubectl: Kubectl) -> None:
    """Each stand-in device opens for root on the node, and none in a container that it was not given to."""
    numbers = devices.stand_ins()
    script = "; ".join(
        f"mknod /x{i} c {n.major} {n.minor}; true </x{i} && echo open{i}" for i, n in enumerate(numbers)
    )
    started(kubectl, pod("refused", plain, "sh", "-c", f"{script}; echo done; sleep 1000"), "refused")
    log = kubectl.wait_log("refused", "done\n")
    assert log.count("Operation not permitted") == len(numbers)
    assert "open" not in log.replace("can't open", "")


def test_what_a_node_writes_stays_on_it(plain: ClusterNode, cluster: Cluster) -> None:
    """A node's /run, /var/lib and kernel settings are its own; the work folder is everyone's."""
    for path in ("/run/railside", "/var/lib/railside", "/var/log/railside"):
        plain.run("mkdir", path)
        assert not Path(path).exists()
    plain.run("sh", "-c", "echo 12345 >/proc/sys/kernel/panic")
    assert Path("/proc/sys/kernel/panic").read_text() != "12345\n"
    plain.run("touch", cluster.workdir / "seen-by-all")
    assert (cluster.workdir / "seen-by-all").exists()


def test_the_look_for_leftovers_sees_a_living_run(plain: ClusterNode, places: Places) -> None:
    """What fails a run for leaving something behind finds the run's processes and groups while it lives."""
    found = "\n".join(leftovers.found(places, leftovers.machine_facts()))
    assert "(etcd) still runs" in found
    assert "(kubelet) still runs" in found
    assert f"/memory/{places.cgroup} is still there" in found
    assert plain.kubelet.running
