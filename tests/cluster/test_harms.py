"""What a careless device plugin does to pods on the real kubelet and containerd: why the laws are laws.

It answers for harms that need no chance. It must not test the agent; the kit of tests/conformance does.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import devices
from harness.cluster import Cluster, MakeNode
from harness.kubectl import Kubectl
from harness.node import ClusterNode
from harness.objects import Node, Pod
from installed_agent import offered
from machine_tree import renumber
from railside_agent.device_nodes import CharacterDevices
from railside_proto import names
from railside_proto.machine import DeviceNode
from railside_sim.gpu_plugin import GpuPlugin
from test_document import end_first_process, example_pod, main_container, remove


def plugin_on(node: ClusterNode, hands_over: Path) -> GpuPlugin:
    """A plugin of one id, whose Allocate hands over a path of the host."""
    folder = Path(f"/proc/{node.namespaces.first_pid}/root") / names.KUBELET_DIR.lstrip("/") / names.DEVICE_PLUGINS
    plugin = GpuPlugin(folder, {"one": 0}, resource=names.RESOURCE, socket="careless.sock")
    plugin.nodes["one"] = (str(hands_over),)
    return plugin


@contextmanager
def pod_with_one(cluster: Cluster, node: ClusterNode) -> Iterator[None]:
    """A pod that has the plugin's one id, and runs."""
    kubectl = cluster.kubectl
    kubectl.wait(Node, node.name, lambda seen: offered(seen) == (1, 1))
    pod = example_pod("careless")
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node.name}
    try:
        kubectl.apply(pod)
        kubectl.wait(Pod, "careless", lambda seen: seen.running)
        yield
    finally:
        remove(kubectl, "careless")


def inside(kubectl: Kubectl) -> str:
    """Type, numbers and name of all that is in the container's /dev/infiniband."""
    return kubectl.execute("careless", "sh", "-c", "(cd /dev/infiniband && stat -c '%F %t:%T %n' *) 2>&1; true")


async def test_an_empty_directory_starts_a_container_without_its_hca(cluster: Cluster, node: MakeNode) -> None:
    """Law 9: the runtime walks a directory that a plugin left empty, and starts the container all the same."""
    made = node(numa=2, policy="best-effort")
    folder = made.folder / "machine/dev/infiniband"
    folder.mkdir(parents=True)
    careless = plugin_on(made, folder)
    await careless.serve_and_register()
    try:
        seen = await asyncio.to_thread(_seen_inside, cluster, made)
    finally:
        await careless.end()

    assert "No such file or directory" in seen


def _seen_inside(cluster: Cluster, node: ClusterNode) -> str:
    with pod_with_one(cluster, node):
        return inside(cluster.kubectl)


async def test_a_renumbered_node_is_handed_over_as_it_is_by_then(cluster: Cluster, node: MakeNode) -> None:
    """Law 9: the kubelet replays its first answer at each start, and the path is another HCA's by now."""
    made = node(numa=2, policy="best-effort")
    folder = made.folder / "machine/dev/infiniband"
    folder.mkdir(parents=True)
    mine, others = folder / "uverbs0", folder / "uverbs1"
    for path, number in zip((mine, others), devices.stand_ins(2), strict=True):
        CharacterDevices().make(path, DeviceNode(name=path.name, major=number.major, minor=number.minor))
    careless = plugin_on(made, mine)
    await careless.serve_and_register()
    try:
        seen = await asyncio.to_thread(_restarted_on_another, cluster, made, mine, others)
    finally:
        await careless.end()

    assert seen[0] != seen[1]
    assert [one.call for one in careless.asked] == ["allocate"]


def _restarted_on_another(cluster: Cluster, node: ClusterNode, mine: Path, others: Path) -> tuple[str, str]:
    """What the container has before and after its HCA was renumbered."""
    kubectl = cluster.kubectl
    with pod_with_one(cluster, node):
        before = inside(kubectl)
        renumber(mine, others)
        end_first_process(kubectl, "careless")
        kubectl.wait(Pod, "careless", lambda seen: seen.running and main_container(seen).restart_count == 1)
        return before, inside(kubectl)
