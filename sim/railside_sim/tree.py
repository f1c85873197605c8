"""A manifest made into the tree that a kernel would show: sys, proc, dev and var below one root.

It answers for the order of the writing and for device nodes. It must not decide what is in a file: each
subsystem has a module of its own.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from types import MappingProxyType
from typing import Final

from railside_proto.machine import DeviceNode
from railside_sim.device_numbers import Numbers, rdma_nodes
from railside_sim.gpu_driver import write_gpu_driver
from railside_sim.lines import ManifestError
from railside_sim.numa_tree import write_numa_nodes
from railside_sim.parts import Manifest
from railside_sim.pci_tree import write_pci
from railside_sim.rdma_tree import write_rdma
from railside_sim.tree_writer import TreeWriter
from railside_sim.virtual_topology import write_virtual_topology

NodeMaker = Callable[[Path, DeviceNode], None]
"""Makes one device node at a path, which is free; raises OSError."""

_DEV: Final = "dev/infiniband"
_KERNEL: Final[Numbers] = MappingProxyType({})


def write_tree(
    manifest: Manifest,
    root: Path,
    *,
    make_node: NodeMaker | None = None,
    numbers: Numbers = _KERNEL,
) -> None:
    """Writes the machine below ``root``, which should be empty.

    ``make_node`` makes each node under dev/infiniband; without it there is no dev folder, as in a recording
    of a machine. ``numbers`` replaces the kernel's numbers by node name, in ``dev`` files and nodes alike.
    Raises ManifestError where ``without`` names nothing of this machine, and OSError.
    """
    tree = TreeWriter(root)
    nodes = rdma_nodes(manifest, numbers)
    write_numa_nodes(tree, manifest.numa)
    write_pci(tree, manifest)
    write_rdma(tree, manifest, nodes)
    write_gpu_driver(tree, manifest.gpus)
    write_virtual_topology(tree, manifest)
    if make_node is not None:
        _make_nodes(tree, nodes.values(), make_node)
    _write_raw(tree, manifest)
    _remove(tree, manifest, recording=make_node is None)


def _make_nodes(tree: TreeWriter, nodes: Iterable[DeviceNode], make_node: NodeMaker) -> None:
    tree.folder(_DEV)
    for node in nodes:
        make_node(tree.place(f"{_DEV}/{node.name}"), node)


def _write_raw(tree: TreeWriter, manifest: Manifest) -> None:
    for path, content in manifest.files:
        tree.text(path, content)
    for path, target in manifest.links:
        tree.raw_link(path, target)


def _remove(tree: TreeWriter, manifest: Manifest, *, recording: bool) -> None:
    for path in manifest.without:
        expected = not (recording and path.startswith("dev/"))
        if not tree.remove(path) and expected:
            raise ManifestError(
                f"{manifest.origin}: without {path} takes away nothing; allowed is a path of the tree"
            )
