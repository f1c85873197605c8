"""/sys/devices/system/node of a machine.

It answers for the files of NUMA nodes that the kernel shows. It must not know of devices.
"""

from railside_sim.cpu_list import joined, mask_of
from railside_sim.parts import NumaPart
from railside_sim.tree_writer import TreeWriter


def write_numa_nodes(tree: TreeWriter, nodes: tuple[NumaPart, ...]) -> None:
    """Writes the machine's NUMA nodes; a kernel without NUMA (no nodes) shows no such folder."""
    if not nodes:
        return
    every = joined(str(node.number) for node in nodes)
    with_cpus = joined(str(node.number) for node in nodes if node.cpus)
    contents: dict[str, str | int] = {"online": every, "possible": every, "has_cpu": with_cpus}
    tree.texts("sys/devices/system/node", contents)
    for node in nodes:
        _write_node(tree, node)


def _write_node(tree: TreeWriter, node: NumaPart) -> None:
    contents: dict[str, str | int] = {
        "cpulist": node.cpus or "\n",
        "cpumap": mask_of(node.cpus),
        "distance": " ".join(map(str, node.distances)),
        "meminfo": _meminfo(node),
    }
    tree.texts(f"sys/devices/system/node/node{node.number}", contents)


def _meminfo(node: NumaPart) -> str:
    used = node.memory_kb // 16
    amounts = {"MemTotal": node.memory_kb, "MemFree": node.memory_kb - used, "MemUsed": used}
    return "".join(f"Node {node.number} {name + ':':<16}{kb:>8} kB\n" for name, kb in amounts.items())
