"""Whether an HCA is at this moment what it was when it was last looked at: its name, its node, its numbers.

It must ask no firmware, as a container's start waits for the answer, and must not say what else it may be.
"""

from pathlib import Path

from railside_agent.device_nodes import DeviceNodes
from railside_agent.tree_files import read_text, top_of
from railside_proto.machine import Hca
from railside_proto.names import CONTAINER_DEVICES


def is_called(root: Path, nodes: DeviceNodes, hca: Hca) -> bool:
    """Whether the kernel calls ``hca`` by its name, and its device node has its numbers. Blocks."""
    entry = f"{top_of(root)}/sys/class/infiniband_verbs/{hca.uverbs.name}"
    numbers = f"{hca.uverbs.major}:{hca.uverbs.minor}"
    if (read_text(f"{entry}/ibdev"), read_text(f"{entry}/dev")) != (hca.name, numbers):
        return False
    node = nodes.read(Path(f"{root}{CONTAINER_DEVICES}") / hca.uverbs.name)
    return node is not None and (node.major, node.minor) == (hca.uverbs.major, hca.uverbs.minor)
