"""GPUs on a node of the cluster: a stand-in for their plugin, with the UUIDs and places of the node's machine.

It answers for what the kubelet and the agent know of GPUs. It must not hand over any device.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from harness.node import ClusterNode
from installed_agent import MACHINE
from railside_proto import names
from railside_proto.machine import LinkLayer
from railside_sim.gpu_plugin import GpuPlugin, Preference, together
from railside_sim.manifest import read_manifest
from railside_sim.parts import FunctionPart, Manifest

AT_RANDOM, TOGETHER = "at random", "together"
GPU_CHOOSERS: Final = (AT_RANDOM, TOGETHER)
"""The kubelet takes any GPUs of the NUMA node; or the plugin names the first of that NUMA node which fits best."""


def machine() -> Manifest:
    """The machine that is laid out on the node."""
    return read_manifest(MACHINE)


def gpu_nodes(parts: Manifest) -> dict[str, int | None]:
    """NUMA node of each GPU, by UUID."""
    return {gpu.uuid: gpu.function.numa for gpu in parts.gpus}


def hca_nodes(parts: Manifest) -> dict[str, int | None]:
    """NUMA node of each InfiniBand HCA, by the name of its device node."""
    return {name: function.numa for name, function in _hcas(parts).items()}


def partners(parts: Manifest) -> dict[str, frozenset[str]]:
    """By UUID the device nodes of the HCAs that a GPU reaches without its host bridge: PIX or PXB."""
    return {
        gpu.uuid: frozenset(name for name, hca in _hcas(parts).items() if _share_a_port(gpu.function, hca))
        for gpu in parts.gpus
    }


def _hcas(parts: Manifest) -> dict[str, FunctionPart]:
    return {
        f"uverbs{hca.uverbs}": hca.function
        for hca in parts.hcas
        if hca.function is not None and hca.ports[0].link is LinkLayer.INFINIBAND
    }


def _share_a_port(one: FunctionPart, other: FunctionPart) -> bool:
    """Whether both hang below one root port: the host bridge, and the first device below it."""
    return one.path[:2] == other.path[:2]


def plugin_folder(node: ClusterNode) -> Path:
    """The kubelet's folder of sockets and its checkpoint, as this process sees it."""
    return node.kubelet_folder / names.DEVICE_PLUGINS


def preference(chooser: str, ids: Mapping[str, int | None]) -> Preference | None:
    """What a plugin answers that chooses so; None where it leaves it to the kubelet."""
    return together({one: str(node) for one, node in ids.items()}) if chooser == TOGETHER else None


@asynccontextmanager
async def gpus_beside(node: ClusterNode, chooser: str = AT_RANDOM) -> AsyncIterator[GpuPlugin]:
    """The machine's GPUs at the node's kubelet, for as long as the context lasts."""
    ids = gpu_nodes(machine())
    plugin = GpuPlugin(plugin_folder(node), ids, preference=preference(chooser, ids))
    await plugin.serve_and_register()
    try:
        yield plugin
    finally:
        await plugin.end()
