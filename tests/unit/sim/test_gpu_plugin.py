"""The stand-in GPU plugin's own choice; its sockets are used by all tests of the kubelet."""

import pytest
from tests.unit.sim.conftest import HCA, Nodes

from railside_proto.machine import DeviceNode
from railside_sim.gpu_plugin import Asked, together
from railside_sim.pods import PodRequest
from railside_sim.stand_in_nodes import StandInNodes

SWITCHES = {"a": "1", "b": "1", "c": "2", "d": "2", "e": "2"}


@pytest.mark.parametrize(
    ("free", "fixed", "size", "expected"),
    [
        ("abcde", "", 2, "ab"),
        ("abcde", "", 3, "cde"),
        ("acde", "", 1, "a"),
        ("abcde", "", 4, "cdea"),
        ("bcd", "e", 3, "ecd"),
        ("a", "", 1, "a"),
    ],
)
def test_gpus_that_belong_together(free: str, fixed: str, size: int, expected: str) -> None:
    """The group that fits with the least left over goes first, and the fullest where none fits."""
    asked = Asked(call="preferred", ids=tuple(free + fixed), must_include=tuple(fixed), size=size)
    assert "".join(together(SWITCHES)(asked)) == expected


async def test_a_plugin_that_hands_over_device_nodes(nodes: Nodes) -> None:
    """A container finds the node of its id where it stands on the host, below whatever folder plays that."""
    node = await nodes.make()
    folder = node.folder / "host/dev/infiniband"
    folder.mkdir(parents=True)
    made = DeviceNode(name="uverbs7", major=231, minor=199)
    StandInNodes().make(folder / made.name, made)
    plugin = await node.offer("a0")
    plugin.nodes = {"a0": (str(folder / made.name),)}
    pod = await node.run(PodRequest(name="old", resource=HCA))
    assert [(one.path, one.node) for one in pod.devices] == [("/dev/infiniband/uverbs7", made)]
