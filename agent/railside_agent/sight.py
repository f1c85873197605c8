"""What is seen of the node: cells that others fill, and files that are read at the moment of asking.

It must not decide anything, nor know pools.
"""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from railside_agent.checkpoint_watch import CheckpointWatch
from railside_agent.device_nodes import DeviceNodes
from railside_agent.holders import Checkpoint, read_checkpoint
from railside_agent.inventory import Inventory, Look
from railside_agent.own_node import NodeFacts
from railside_agent.pod_resources import NodeHoldings
from railside_agent.pods import Pods
from railside_agent.presence import is_called
from railside_proto.machine import Hca
from railside_proto.record import KubeletFacts
from railside_runtime.cell import Cell

Clock = Callable[[], float]


async def _at_once() -> None:
    """Nobody is asked."""


class Sight:
    """What is seen of the node, the same for all of its pools."""

    def __init__(
        self,
        root: Path,
        nodes: DeviceNodes,
        *,
        inventory: Inventory,
        checkpoint: CheckpointWatch,
        node: Cell[NodeFacts],
        pods: Cell[Pods],
        holdings: Cell[NodeHoldings | None],
        clock: Clock = time.monotonic,
    ) -> None:
        """Look below ``root`` where a moment counts, and at what the others have seen everywhere else."""
        self.inventory = inventory
        self.checkpoint = checkpoint
        self.node = node
        self.pods = pods
        self.holdings = holdings
        self.kubelet: Cell[KubeletFacts] = Cell(KubeletFacts())
        """How the kubelet admits pods; nobody tells unless it is put here."""
        self.pods_heard: Callable[[], Awaitable[object]] = _at_once
        """Returns when the API server has told of the pods once; at once unless told otherwise."""
        self.kubelet_heard: Callable[[], Awaitable[object]] = _at_once
        """Returns when the kubelet was asked for its configuration once; at once unless told otherwise."""
        self.clock = clock
        self._root = root
        self._nodes = nodes
        self._read: tuple[bytes | None, Checkpoint | None] = (b"", Checkpoint())

    @property
    def look(self) -> Look | None:
        """The last look at the machine."""
        return self.inventory.latest.value

    def holders(self) -> tuple[bytes | None, Checkpoint | None]:
        """The kubelet's checkpoint as it was read, and understood: None where it was not, or makes no sense."""
        content = self.checkpoint.latest.value
        read, understood = self._read
        if content is not read:
            understood = None if content is None else read_checkpoint(content)
            # In one step, as two threads may ask: each then has a pair that belongs together.
            self._read = (content, understood)
        return content, understood

    @property
    def complaint(self) -> str | None:
        """What is wrong with the kubelet's checkpoint, if it was read."""
        content, understood = self.holders()
        if content is None or understood is not None:
            return None
        return "the kubelet's checkpoint makes no sense: what was listed and bound stays as it is"

    def is_present(self, hcas: tuple[Hca, ...]) -> bool:
        """Whether the kernel calls and numbers ``hcas`` so at this moment. Blocks."""
        return all(is_called(self._root, self._nodes, hca) for hca in hcas)
