"""Pods that are set up otherwise than the document's: each gets its own HCA, and is told which that is.

It answers for what the real kubelet, containerd and kernel make of such pods. Pods in the host's network are in
test_life_cycle. It must not test which HCA is the nearest.
"""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import waiting
from harness.cluster import Cluster
from harness.kubectl import Kubectl
from harness.node import ClusterNode
from harness.objects import ContainerState, Pod
from installed_agent import NAMESPACE, InstalledAgent, document_agent
from looking_inside import INFO
from test_document import (
    CAP_IPC_LOCK,
    capabilities,
    end_first_process,
    example_pod,
    main_container,
    named,
    nodes_inside,
    remove,
    running,
    uverbs_inside,
)
from test_life_cycle import listened_to

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def agent(cluster: Cluster) -> Iterator[InstalledAgent]:
    """The agent on a node of the document."""
    with document_agent(cluster) as installed:
        yield installed


@pytest.fixture(scope="module")
def own_dev(agent: InstalledAgent) -> Iterator[None]:
    """The HCAs' device nodes are in the node's /dev, as on a real one; the machine's own stays as it is."""
    with dev_of_its_own(agent.node, agent.node.folder / "machine/dev/infiniband"):
        yield


@contextmanager
def dev_of_its_own(node: ClusterNode, infiniband: Path) -> Iterator[None]:
    upper, work = (node.folder / "dev" / name for name in ("upper", "work"))
    for folder in (upper / "infiniband", work):
        folder.mkdir(parents=True)
    node.run("mount", "-t", "overlay", "-o", f"lowerdir=/dev,upperdir={upper},workdir={work}", "node", "/dev")
    node.run("mount", "--bind", infiniband, "/dev/infiniband")
    try:
        yield
    finally:
        node.run("umount", "--lazy", "/dev/infiniband", "/dev")


@contextmanager
def runs(kubectl: Kubectl, pod: dict[str, Any]) -> Iterator[str]:
    """A pod that runs, for as long as the context lasts; its name."""
    name: str = pod["metadata"]["name"]
    try:
        kubectl.apply(pod)
        kubectl.wait(Pod, name, lambda seen: seen.running, timeout_s=60)
        yield name
    finally:
        remove(kubectl, name)


def secured(name: str, **context: object) -> dict[str, Any]:
    """The document's Pod with other words in its container's securityContext."""
    pod = example_pod(name)
    pod["spec"]["containers"][0]["securityContext"].update(context)
    return pod


def with_host_path(name: str, path: str, *, read_only: bool) -> dict[str, Any]:
    """The document's Pod with a folder of the host at its own place."""
    pod = example_pod(name)
    pod["spec"]["volumes"].append({"name": "own", "hostPath": {"path": path}})
    mounts = pod["spec"]["containers"][0]["volumeMounts"]
    mounts.append({"name": "own", "mountPath": path, "readOnly": read_only})
    return pod


def told(agent: InstalledAgent, pod: str) -> str:
    """The device node of the one HCA that a pod is told of."""
    devices = {name: device for device, name in agent.hca_names().items()}
    hca = agent.cluster.kubectl.execute(pod, "cat", f"{INFO}/hcas").strip()
    assert named(agent)[f"default/{pod}"] == [hca]
    return devices[hca]


def hosts_nodes(agent: InstalledAgent) -> set[str]:
    """All that is in the host's /dev/infiniband, those of the fabric's management among them."""
    return {path.name for path in (agent.node.folder / "machine/dev/infiniband").iterdir()}


def opened(agent: InstalledAgent, pod: str) -> set[str]:
    """Which of the node's device nodes a container's user can open, by their own names."""
    lines = "\n".join(f"true < /dev/infiniband/{name} && echo {name}" for name in agent.numbers)
    return set(agent.cluster.kubectl.execute(pod, "sh", "-c", f"({lines}) 2>/dev/null; true").split())


@pytest.mark.usefixtures("own_dev")
def test_a_privileged_pod(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """It runs, and sees and opens all HCAs of its node, which no plugin can help; its own is told (B-DP-50)."""
    with runs(kubectl, secured("privileged", privileged=True)) as pod:
        own = told(agent, pod)
        nccl = kubectl.execute(pod, "cat", f"{INFO}/nccl.conf")

        assert nodes_inside(kubectl, pod) == hosts_nodes(agent)
        assert opened(agent, pod) == set(agent.numbers)
        assert nccl == f"NCCL_IB_HCA=={agent.hca_names()[own]}\n"


@pytest.mark.usefixtures("own_dev")
@pytest.mark.parametrize(
    ("path", "read_only"), [("/dev", False), ("/dev/infiniband", False), ("/dev/infiniband", True)]
)
def test_a_pod_with_the_hosts_devices(
    agent: InstalledAgent, kubectl: Kubectl, path: str, *, read_only: bool
) -> None:
    """It sees the names of all HCAs, as it asked for, and the kernel lets it open its own alone (B-DP-50)."""
    name = f"own{path.replace('/', '-')}-{'ro' if read_only else 'rw'}"
    with runs(kubectl, with_host_path(name, path, read_only=read_only)) as pod:
        assert nodes_inside(kubectl, pod) == hosts_nodes(agent)
        assert opened(agent, pod) == {told(agent, pod), "rdma_cm"}


def test_a_pod_that_cannot_write(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """A read-only root and no capability change nothing: it sees and opens its one HCA."""
    context = {"readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    with runs(kubectl, secured("read-only", **context, seccompProfile={"type": "RuntimeDefault"})) as pod:
        assert nodes_inside(kubectl, pod) == {told(agent, pod), "rdma_cm"} == opened(agent, pod)


def test_a_pod_of_another_user(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """It opens its HCA, whose node has the mode of the host's; IPC_LOCK is of no use to it (B-DP-52)."""
    with runs(kubectl, secured("user", runAsNonRoot=True, runAsUser=1000)) as pod:
        assert kubectl.execute(pod, "id", "-u") == "1000\n"
        assert nodes_inside(kubectl, pod) == {told(agent, pod), "rdma_cm"} == opened(agent, pod)
        assert not capabilities(kubectl, pod, program=("cat", "/proc/1/status")) >> CAP_IPC_LOCK & 1


def test_a_container_that_crashes(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """Whether it ends by itself or is killed, it runs again with the HCA that it had, while others hold theirs."""
    with running(kubectl, "exits", "killed", "beside") as pods:
        before = named(agent)
        end_first_process(kubectl, "exits")
        os.kill(first_process(pods[1]), signal.SIGKILL)
        for name in ("exits", "killed"):
            kubectl.wait(
                Pod, name, lambda pod: pod.running and main_container(pod).restart_count == 1, timeout_s=60
            )

        assert {name: told(agent, name) for name in ("exits", "killed")} == {
            name: uverbs_inside(kubectl, name) for name in ("exits", "killed")
        }
        assert named(agent) == before


def first_process(pod: Pod) -> int:
    """The first process of a pod's only container, numbered as here."""
    container = main_container(pod).container_id.rpartition("/")[2]
    (pid,) = (one for one in psutil.pids() if container in read(one, "cgroup") and is_first(read(one, "status")))
    return pid


def read(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text()
    except OSError:
        return ""


def is_first(status: str) -> bool:
    return any(line.startswith("NSpid:") and line.split()[-1] == "1" for line in status.splitlines())


def test_a_container_restarts_while_the_agent_is_away(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """It waits and says why, without any HCA; when the agent is back it runs with the HCA that it had."""
    with running(kubectl, "orphan"):
        own = uverbs_inside(kubectl, "orphan")
        with away(agent):
            end_first_process(kubectl, "orphan")
            waits = kubectl.wait(Pod, "orphan", lambda pod: refused(pod) is not None, timeout_s=60)
        kubectl.wait(Pod, "orphan", lambda pod: pod.running, timeout_s=90)

        assert "has been stopped" in (refused(waits) or "")
        assert uverbs_inside(kubectl, "orphan") == own == told(agent, "orphan")


@contextmanager
def away(agent: InstalledAgent) -> Iterator[None]:
    """The DaemonSet wants no pod on any node; behind it the agent is back, and the kubelet listens to it."""
    try:
        select(agent, {"railside.test/nowhere": "true"})
        waiting.until(lambda: not is_there(agent), "the agent's pod to go", timeout_s=60)
        yield
    finally:
        select(agent, None)
        waiting.until(lambda: listened_to(agent), "the agent to be back", timeout_s=90)


def select(agent: InstalledAgent, labels: dict[str, str] | None) -> None:
    patch = json.dumps({"spec": {"template": {"spec": {"nodeSelector": labels}}}})
    agent.cluster.kubectl("patch", "daemonset", "railside-agent", "-n", NAMESPACE, "--type=merge", "-p", patch)


def is_there(agent: InstalledAgent) -> bool:
    try:
        return bool(agent.pod())
    except ValueError:
        return False


def refused(pod: Pod) -> str | None:
    """Why the pod's container cannot be made; None while it can."""
    state: ContainerState = main_container(pod).state
    is_refused = state.waiting is not None and state.waiting.reason == "CreateContainerConfigError"
    return state.waiting.message if is_refused and state.waiting else None
