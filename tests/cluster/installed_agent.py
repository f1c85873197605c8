"""The product on a node of the cluster: the kustomize base of deploy/, on the tree of one of our machines.

It answers for what must differ from a real node: where the machine's sys, dev and proc are. It must not change
anything else of the manifest.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml
from msgspec import structs

from harness import devices, waiting
from harness.cluster import Cluster
from harness.kubectl import Kubectl
from harness.kubelet import NodeSettings
from harness.node import ClusterNode
from harness.objects import Node, Pod
from railside_agent.device_nodes import CharacterDevices
from railside_proto.machine import LinkLayer
from railside_proto.names import MODE_LABEL, RESOURCE
from railside_sim.manifest import read_manifest
from railside_sim.parts import Manifest
from railside_sim.tree import write_tree

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "deploy/examples/rdma-test.yaml"
BASE = REPOSITORY / "deploy/agent"
MACHINE = REPOSITORY / "tests/machines/ecs.hpcpni3.45xlarge.machine"
NAMESPACE = "railside"
HARDWARE = {"feature.node.kubernetes.io/rdma.available": "true"}
"""What node-feature-discovery says of such a machine: by the mode's label alone an agent would go with it."""
DOCUMENT_NODE = NodeSettings(numa=2, policy="best-effort", labels={**HARDWARE, MODE_LABEL: "ib-shared"})
"""As the document asks for: the label, and topologyManagerPolicy best-effort."""
HCAS = 8
"""Of the machine, for InfiniBand."""
KUBELET_FOLDER = "/var/lib/kubelet"

_ASK = "import sys, urllib.request as r; sys.stdout.write(r.urlopen(sys.argv[1], timeout=5).read().decode())"


@dataclass(frozen=True)
class LaidOutMachine:
    """A machine's tree on a node, and the numbers of its device nodes by name."""

    tree: Path
    numbers: dict[str, devices.Number]


@dataclass(frozen=True)
class InstalledAgent:
    """The agent's DaemonSet with one pod, on one node."""

    cluster: Cluster
    node: ClusterNode
    machine: LaidOutMachine

    @property
    def numbers(self) -> dict[str, devices.Number]:
        """Numbers of the character devices that stand in for the machine's, by the node's name."""
        return self.machine.numbers

    def hca_names(self) -> dict[str, str]:
        """Name of the HCA of each device node, by the node's name."""
        return {hca["uverbs"]["name"]: hca["name"] for hca in self.status()["machine"]["hcas"]}

    def containers(self) -> dict[str, list[str]]:
        """Names of the HCAs of each pod's containers that have started, by ``namespace/name``."""
        return {one["pod"]: one["names"] for one in self.pool()["containers"]}

    def held(self) -> set[str]:
        """Seats that containers hold, as far as the agent knows."""
        return {seat["id"] for seat in self.pool()["seats"] if seat["held"]}

    def pool(self) -> dict[str, Any]:
        """What the status says of the one pool."""
        (pool,) = self.status()["pools"]
        answer: dict[str, Any] = pool
        return answer

    def status(self) -> dict[str, Any]:
        """What the agent answers on its node's loopback."""
        answer: dict[str, Any] = json.loads(self._ask("/status"))
        return answer

    def pod(self) -> str:
        """Name of the agent's one pod."""
        (name,) = self._pods()
        return name

    def process(self) -> int:
        """Its process, numbered as here. Raises ValueError while there is none."""
        (pid,) = (one.pid for one in psutil.process_iter(["cmdline"]) if _is_agent(one, self.node.cgroup))
        return pid

    def replace(self) -> None:
        """Delete the agent's pod; return when another is there in its place and the kubelet listens to it."""
        old = self.pod()
        self.cluster.kubectl("delete", "pod", "-n", NAMESPACE, old)
        new = waiting.until_value(lambda: next(iter(self._pods() - {old}), None), "a new pod of the agent")
        self.cluster.kubectl.wait(Pod, new, lambda pod: pod.running, namespace=NAMESPACE, timeout_s=60)
        self.await_streams(1)

    def _pods(self) -> set[str]:
        found = self.cluster.kubectl.get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=railside-agent")
        return {one["metadata"]["name"] for one in found["items"]}

    def await_offered(self, count: int) -> None:
        """Return when the node says that it has ``count`` HCAs to give."""
        self.cluster.kubectl.wait(Node, self.node.name, lambda node: offered(node) == (count, count))

    def await_allocatable(self, count: int, *, timeout_s: float = 20) -> None:
        """Return when the node has ``count`` to give, whatever it counts in all."""
        kubectl = self.cluster.kubectl
        kubectl.wait(Node, self.node.name, lambda node: offered(node)[1] == count, timeout_s=timeout_s)

    def await_streams(self, count: int) -> None:
        """Return when the kubelet holds ``count`` streams open: none while it is away, one when it listens."""
        waiting.until(lambda: self.pool()["registration"]["streams"] == count, f"{count} streams")

    def _ask(self, path: str) -> str:
        return self.node.run("python3", "-I", "-S", "-c", _ASK, f"http://127.0.0.1:9471{path}")


def _is_agent(process: psutil.Process, cgroup: str) -> bool:
    """Whether it is the agent in a pod of the node with that ``cgroup``."""
    words = process.info["cmdline"] or []
    try:
        return words[-1:] == ["run"] and f"/{cgroup}/" in Path(f"/proc/{process.pid}/cgroup").read_text()
    except OSError:
        return False


def offered(node: Node) -> tuple[int, int]:
    """Capacity and allocatable HCAs of a node."""
    capacity, allocatable = (of.get(RESOURCE, "0") for of in (node.status.capacity, node.status.allocatable))
    return int(capacity), int(allocatable)


@contextmanager
def document_agent(
    cluster: Cluster, settings: NodeSettings = DOCUMENT_NODE, **environment: str
) -> Iterator[InstalledAgent]:
    """The agent on a node of the document, all of whose HCAs are offered."""
    with installed_agent(cluster, settings, **environment) as agent:
        agent.await_offered(HCAS)
        yield agent


@contextmanager
def installed_agent(cluster: Cluster, settings: NodeSettings, **environment: str) -> Iterator[InstalledAgent]:
    """Make a node, put our machine's tree on it, and apply the base with more of ``environment``."""
    with cluster.node(settings) as node:
        machine = lay_out_machine(node)
        cluster.kubectl.apply(*manifests(cluster.kubectl, machine.tree, **environment))
        agent = InstalledAgent(cluster, node, machine)
        try:
            cluster.kubectl("rollout", "status", "-n", NAMESPACE, "daemonset/railside-agent", "--timeout=90s")
            yield agent
        finally:
            # With its pods: one that is left would go to the next node, too, and fight for its kubelet.
            cluster.kubectl("delete", "-n", NAMESPACE, "daemonset/railside-agent", "--cascade=foreground")


def lay_out_machine(node: ClusterNode) -> LaidOutMachine:
    """Put our machine's tree on a node; devices of this kernel stand in for those of the HCAs."""
    tree = node.folder / "machine"
    machine = read_manifest(MACHINE)
    numbers = _stand_ins(machine)
    write_tree(machine, tree, make_node=CharacterDevices().make, numbers=numbers)
    return LaidOutMachine(tree, numbers)


def boot_in_another_order(machine: LaidOutMachine) -> None:
    """What a boot leaves of the tree when the kernel finds the HCAs last to first: no ``run``, other numbers."""
    for folder in ("sys", "proc", "dev", "var/run", "run"):
        shutil.rmtree(machine.tree / folder, ignore_errors=True)
    manifest = read_manifest(MACHINE)
    numbers = [hca.uverbs for hca in manifest.hcas]
    hcas = tuple(
        structs.replace(hca, uverbs=uverbs) for hca, uverbs in zip(manifest.hcas, reversed(numbers), strict=True)
    )
    found = structs.replace(manifest, hcas=hcas)
    write_tree(found, machine.tree, make_node=CharacterDevices().make, numbers=_stand_ins(found))


def _stand_ins(machine: Manifest) -> dict[str, devices.Number]:
    """A device of this kernel for each InfiniBand HCA of the machine, and one for rdma_cm."""
    infiniband = [hca for hca in machine.hcas if any(port.link is LinkLayer.INFINIBAND for port in hca.ports)]
    names = [f"uverbs{hca.uverbs}" for hca in infiniband]
    return dict(zip([*names, "rdma_cm"], devices.stand_ins(len(names) + 1), strict=True))


def manifests(kubectl: Kubectl, tree: Path, **environment: str) -> Iterator[dict[str, Any]]:
    """The objects of deploy/agent, the machine's folders of the host taken from ``tree``."""
    for manifest in yaml.safe_load_all(kubectl("kustomize", BASE)):
        if manifest["kind"] == "DaemonSet":
            spec = manifest["spec"]["template"]["spec"]
            for volume in spec["volumes"]:
                path = volume["hostPath"]["path"]
                if not path.startswith(KUBELET_FOLDER):
                    volume["hostPath"]["path"] = f"{tree}{path}"
            added = {"RAILSIDE_AGENT_HOST_ROOT": str(tree), **environment}
            spec["containers"][0]["env"] += [{"name": name, "value": value} for name, value in added.items()]
        yield manifest
