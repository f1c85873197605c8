"""The platform's document on real programs: its Pod, unchanged, gets one HCA and can open no other.

It answers for the agent as its manifests install it. It must not test the harness.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import waiting
from harness.cluster import Cluster
from harness.commands import CommandError
from harness.kubectl import Kubectl
from harness.objects import ContainerStatus, Pod
from installed_agent import EXAMPLE, NAMESPACE, InstalledAgent, document_agent
from railside_proto.names import CONTAINER_INFO, RESOURCE, TOPOLOGY_DIR

CAP_IPC_LOCK = 14
CAP_MKNOD = 27


@pytest.fixture(scope="module")
def agent(cluster: Cluster) -> Iterator[InstalledAgent]:
    """The agent on a node as the document asks for: the label, and topologyManagerPolicy best-effort."""
    with document_agent(cluster) as installed:
        yield installed


def example_pod(name: str) -> dict[str, Any]:
    """The document's Pod under another name, and with a command that ends at SIGTERM."""
    pod: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    pod["metadata"]["name"] = name
    # Ends when it is told to, as nothing in the document's does: a first process ignores what it does not catch.
    pod["spec"]["containers"][0]["command"][-1] = "trap 'exit 0' TERM; sleep 10000 & wait"
    return pod


def with_init_container(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod with an init container before, that asks for what the first container asks for and ends."""
    first = pod["spec"]["containers"][0]
    pod["spec"]["initContainers"] = [{**first, "name": "before", "command": ["ls", "/dev/infiniband"]}]
    return pod


@contextmanager
def running(kubectl: Kubectl, *names: str, init: bool = False) -> Iterator[list[Pod]]:
    """Pods like the document's that run, for as long as the context lasts."""
    try:
        kubectl.apply(*(with_init_container(example_pod(name)) if init else example_pod(name) for name in names))
        yield [kubectl.wait(Pod, name, lambda pod: pod.running) for name in names]
    finally:
        remove(kubectl, *names)


def remove(kubectl: Kubectl, *names: str) -> None:
    """Delete pods, and return when the kubelet has let them go."""
    kubectl("delete", "pod", *names, "--ignore-not-found", "--grace-period=1", "--wait=false")
    for name in names:
        kubectl.wait_gone(Pod, name)


def nodes_inside(kubectl: Kubectl, pod: str) -> set[str]:
    """Names in the container's /dev/infiniband."""
    return set(kubectl.execute(pod, "ls", "/dev/infiniband").split())


def uverbs_inside(kubectl: Kubectl, pod: str) -> str:
    """The one uverbs node of a container."""
    (name,) = nodes_inside(kubectl, pod) - {"rdma_cm"}
    return name


def end_first_process(kubectl: Kubectl, pod: str) -> None:
    """Have a container end; the program that tells it so may be taken along."""
    with suppress(CommandError):
        kubectl.execute(pod, "kill", "1")


def main_container(pod: Pod) -> ContainerStatus:
    """The pod's only container."""
    (status,) = pod.status.container_statuses
    return status


def capabilities(kubectl: Kubectl, pod: str, *, namespace: str = "default", program: tuple[str, ...]) -> int:
    """Effective capabilities of a container's first process, as a bit set."""
    status = kubectl.execute(pod, *program, namespace=namespace)
    (line,) = (line for line in status.splitlines() if line.startswith("CapEff:"))
    return int(line.split()[1], 16)


@pytest.fixture(scope="class")
def document_pod(agent: InstalledAgent) -> Iterator[Pod]:
    """The document's Pod, running."""
    kubectl = agent.cluster.kubectl
    kubectl.apply(EXAMPLE)
    yield kubectl.wait(Pod, "rdma-test", lambda pod: pod.running)
    remove(kubectl, "rdma-test")


@pytest.mark.usefixtures("document_pod")
class TestTheDocumentsPod:
    """deploy/examples/rdma-test.yaml, not a letter changed."""

    def test_it_sees_one_hca_and_the_connection_manager(self, agent: InstalledAgent, kubectl: Kubectl) -> None:
        """The container holds exactly one uverbs node, the one that /status names, and rdma_cm."""
        own = uverbs_inside(kubectl, "rdma-test")

        assert {own, "rdma_cm"} == nodes_inside(kubectl, "rdma-test")
        assert [agent.hca_names()[own]] == agent.containers()["default/rdma-test"]

    def test_its_seat_is_known_to_be_held(self, agent: InstalledAgent) -> None:
        """The agent reads the real kubelet's checkpoint: this pod's seat is held, and no other."""
        waiting.until(lambda: len(agent.held()) == 1, "one seat to be held")

        (container,) = agent.pool()["containers"]
        assert agent.held() == set(container["seats"])

    def test_it_opens_its_own_hca_and_is_refused_every_other(
        self, agent: InstalledAgent, kubectl: Kubectl
    ) -> None:
        """The kernel lets the container open the numbers it was given, under any name, and no others."""
        own = uverbs_inside(kubectl, "rdma-test")
        script = "\n".join(
            f"mknod /tmp-{name} c {number.major} {number.minor}; true < /tmp-{name} && echo {name} opens"
            for name, number in agent.numbers.items()
        )

        kubectl.execute("rdma-test", "sh", "-c", f"true < /dev/infiniband/{own}")
        output = kubectl.execute("rdma-test", "sh", "-c", f"({script}) 2>&1; true")

        opened = {line.split()[0] for line in output.splitlines() if line.endswith(" opens")}
        assert {own, "rdma_cm"} == opened
        assert len(agent.numbers) - 2 == output.count("Operation not permitted")

    def test_it_may_pin_memory_and_has_shared_memory(self, kubectl: Kubectl) -> None:
        """IPC_LOCK is effective, /dev/shm is memory, and the topology's directory is mounted read-only."""
        held = capabilities(kubectl, "rdma-test", program=("cat", "/proc/1/status"))
        mounts = [line.split() for line in kubectl.execute("rdma-test", "cat", "/proc/mounts").splitlines()]
        by_place = {place: (kind, options.split(",")) for _, place, kind, options, *_ in mounts}

        assert held >> CAP_IPC_LOCK & 1
        assert by_place["/dev/shm"][0] == "tmpfs"  # noqa: S108 -- a place in a container
        assert "ro" in by_place[f"/{TOPOLOGY_DIR}"][1]

    def test_it_is_told_what_it_was_given(self, agent: InstalledAgent, kubectl: Kubectl) -> None:
        """The info folder names the HCA to which the container's uverbs node belongs."""
        name = agent.hca_names()[uverbs_inside(kubectl, "rdma-test")]

        told = kubectl.execute("rdma-test", "cat", f"{CONTAINER_INFO}/infiniband-rdma/hcas")

        assert f"{name}\n" == told


def test_the_agent_holds_one_capability(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """The agent's process is not privileged: of all capabilities it has MKNOD alone."""
    program = ("python3", "-c", "print(open('/proc/1/status').read())")

    held = capabilities(kubectl, agent.pod(), namespace=NAMESPACE, program=program)

    assert held == 1 << CAP_MKNOD


def test_every_device_left_out_has_its_reason(agent: InstalledAgent) -> None:
    """The Ethernet bond of the machine is not offered, and /status says why."""
    (left_out,) = agent.status()["machine"]["excluded"]

    assert (left_out["name"], left_out["reason"]["code"]) == ("mlx5_bond_0", "EthernetLink")


def test_nine_pods_and_eight_hcas(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """Eight pods get eight different HCAs, the ninth stays Pending until one of them is gone."""
    names = [f"rdma-{number}" for number in range(8)]
    with running(kubectl, *names):
        dealt = {uverbs_inside(kubectl, name) for name in names}
        try:
            kubectl.apply(example_pod("rdma-late"))
            waiting = kubectl.wait(Pod, "rdma-late", is_refused)
            remove(kubectl, names[0])
            kubectl.wait(Pod, "rdma-late", lambda pod: pod.running)
        finally:
            remove(kubectl, "rdma-late")

    assert set(agent.numbers) - {"rdma_cm"} == dealt
    assert f"Insufficient {RESOURCE}" in waiting.status.conditions[0].message
    assert waiting.status.phase == "Pending"


def is_refused(pod: Pod) -> bool:
    """Whether the scheduler has found no node for it."""
    return any(one.type == "PodScheduled" and one.reason == "Unschedulable" for one in pod.status.conditions)


def test_two_hcas_of_one_numa_node(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """A pod that asks for two HCAs gets both from one NUMA node, by the hints of the list."""
    pair = example_pod("rdma-pair")
    pair["spec"]["containers"][0]["resources"]["limits"][RESOURCE] = 2
    numa_nodes = {hca["uverbs"]["name"]: hca["numaNode"] for hca in agent.status()["machine"]["hcas"]}
    try:
        kubectl.apply(pair)
        kubectl.wait(Pod, "rdma-pair", lambda pod: pod.running)
        inside = nodes_inside(kubectl, "rdma-pair") - {"rdma_cm"}
    finally:
        remove(kubectl, "rdma-pair")

    assert len(inside) == 2
    assert len({numa_nodes[name] for name in inside}) == 1


@pytest.mark.parametrize("gracefully", [True, False], ids=["stopped", "killed"])
def test_the_kubelet_restarts(agent: InstalledAgent, kubectl: Kubectl, *, gracefully: bool) -> None:
    """A kubelet that restarts finds every HCA offered again, and its pods with theirs as before (B-DP-34, 43).

    The pods have an init container with an HCA: when the list comes late, or without a held seat, the kubelet
    fails and kills such pods at its restart.
    """
    with running(kubectl, "rdma-a", "rdma-b", init=True) as before:
        seen = {name: nodes_inside(kubectl, name) for name in ("rdma-a", "rdma-b")}
        end = agent.node.kubelet.stop if gracefully else agent.node.kubelet.kill
        end()
        agent.await_streams(0)
        away = agent.status()["notReady"]
        agent.node.kubelet.start()
        agent.await_streams(1)
        agent.await_offered(8)
        with running(kubectl, "rdma-c"):
            third = uverbs_inside(kubectl, "rdma-c")
        after = [kubectl.wait(Pod, pod.metadata.name, lambda pod: pod.running) for pod in before]

        assert seen == {name: nodes_inside(kubectl, name) for name in seen}
        assert [main_container(pod).container_id for pod in before] == [
            main_container(pod).container_id for pod in after
        ]
        assert third not in set().union(*seen.values())
        assert any("kubelet" in sentence for sentence in away)


def test_the_agent_is_replaced(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """A new agent pod knows who has what, and a container that restarts under it gets the HCA that it had."""
    with running(kubectl, "rdma-a", "rdma-b"):
        had = named(agent)
        inside = {name: nodes_inside(kubectl, name) for name in ("rdma-a", "rdma-b")}
        agent.replace()
        agent.await_offered(8)
        end_first_process(kubectl, "rdma-b")
        kubectl.wait(Pod, "rdma-b", _restarted)

        assert had == named(agent)
        assert inside == {name: nodes_inside(kubectl, name) for name in inside}


def named(agent: InstalledAgent) -> dict[str, list[str]]:
    """HCAs of pods that the API server knows; the kubelet's checkpoint names others until its next allocation."""
    return {pod: hcas for pod, hcas in agent.containers().items() if "/" in pod}


def _restarted(pod: Pod) -> bool:
    return pod.running and main_container(pod).restart_count == 1


def test_the_example_is_the_documents() -> None:
    """The example is one Pod that asks for one HCA under the document's resource name."""
    (pod,) = yaml.safe_load_all(Path(EXAMPLE).read_text(encoding="utf-8"))

    assert (pod["kind"], pod["metadata"]["name"]) == ("Pod", "rdma-test")
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {RESOURCE: 1}
