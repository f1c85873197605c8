"""Answers for the NUMA nodes that a cluster node believes its machine to have.

It must not run outside a node's own mount namespace, nor change which memory the kernel really gives.
"""

import os
from pathlib import Path

SYSFS = Path("/sys/devices/system")
NEAR, FAR = 10, 20
MEMORY_KIB = 8 * 1024 * 1024


def write_tree(target: Path, count: int) -> None:
    """Make ``target`` a ``/sys/devices/system/node`` of ``count`` nodes that share the machine's CPUs."""
    cpus = os.cpu_count() or 1
    for node in range(count):
        _write_node(
            target / f"node{node}", node, count, [cpu for cpu in range(cpus) if cpu * count // cpus == node]
        )
    for name in ("online", "possible", "has_memory", "has_normal_memory", "has_cpu"):
        _write(target / name, f"0-{count - 1}" if count > 1 else "0")


def _write_node(folder: Path, node: int, count: int, cpus: list[int]) -> None:
    (folder / "hugepages").mkdir(parents=True)
    for cpu in cpus:
        (folder / f"cpu{cpu}").symlink_to(SYSFS / "cpu" / f"cpu{cpu}")
    _write(folder / "cpulist", ",".join(map(str, cpus)))
    _write(folder / "distance", " ".join(str(NEAR if other == node else FAR) for other in range(count)))
    _write(folder / "meminfo", f"Node {node} MemTotal: {MEMORY_KIB} kB")


def _write(target: Path, line: str) -> None:
    target.write_text(f"{line}\n", encoding="ascii")
