"""Joins RDMA devices with their device nodes: exact, on ``ibdev`` and on the numbers that the kernel says.

It must not read anything. Numbers in names (uverbs3, mlx5_4) say nothing and must not be compared.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from railside_agent.kernel_text import device_numbers
from railside_agent.raw_machine import RawCharacterDevice, RawMachine
from railside_proto.machine import DeviceNode
from railside_proto.reasons import Code, Reason, reason

_UVERBS: Final = re.compile(r"uverbs\d{1,7}")
_UMAD: Final = re.compile(r"umad\d{1,7}")

_OPEN_MODE: Final = 0o666
_ROOTS_MODE: Final = 0o600
"""How udev guards uverbs and umad."""


class NodeTable:
    """The device nodes of a machine, by the RDMA device that they belong to."""

    def __init__(self, raw: RawMachine) -> None:
        self._uverbs = [entry for entry in raw.uverbs if _UVERBS.fullmatch(entry.name)]
        self._umads = [entry for entry in raw.umads if _UMAD.fullmatch(entry.name)]
        self._claims = Counter(device_numbers(entry.dev) for entry in self._uverbs)
        self._rdma_cm_dev = raw.rdma_cm_dev
        self._nodes = None if raw.device_nodes is None else {node.name: node for node in raw.device_nodes}

    def uverbs(self, device: str) -> DeviceNode | Reason:
        """The node through which ``device`` is used; a device without is not complete, whose reason this is."""
        entry = next(self._of(device, self._uverbs), None)
        if entry is None:
            return _missing(device, "sys/class/infiniband_verbs has no entry for it")
        numbers = device_numbers(entry.dev)
        if numbers is None:
            return _missing(device, f"sys/class/infiniband_verbs/{entry.name}/dev cannot be read")
        if self._claims[numbers] > 1:
            shown = f"{numbers[0]}:{numbers[1]}"
            return reason(Code.UVERBS_NUMBERS_SHARED, device=device, node=entry.name, numbers=shown)
        return self._checked(device, entry.name, numbers)

    def umads(self, device: str) -> tuple[DeviceNode, ...]:
        """The management nodes of its ports: those that are sound, as nothing depends on them."""
        found = ((entry.name, device_numbers(entry.dev)) for entry in self._of(device, self._umads))
        nodes = (self._checked(device, name, numbers) for name, numbers in found if numbers is not None)
        return tuple(node for node in nodes if isinstance(node, DeviceNode))

    def rdma_cm(self) -> DeviceNode | None:
        """The connection manager's node, if its numbers are the kernel's; optional, as verbs work without it."""
        node = (self._nodes or {}).get("rdma_cm")
        return node if node is not None and (node.major, node.minor) == device_numbers(self._rdma_cm_dev) else None

    @staticmethod
    def _of(device: str, entries: Iterable[RawCharacterDevice]) -> Iterator[RawCharacterDevice]:
        return (entry for entry in entries if entry.ibdev == device)

    def _checked(self, device: str, name: str, numbers: tuple[int, int]) -> DeviceNode | Reason:
        """The node called ``name``, if its numbers are the kernel's; a recording has no nodes to check."""
        if self._nodes is None:
            mode = _ROOTS_MODE if _UMAD.fullmatch(name) else _OPEN_MODE
            return DeviceNode(name=name, major=numbers[0], minor=numbers[1], mode=mode)
        node = self._nodes.get(name)
        if node is None:
            return _missing(device, f"/dev/infiniband/{name} is not there")
        if (node.major, node.minor) != numbers:
            return _numbers_differ(device, node, numbers)
        return node


def _missing(device: str, detail: str) -> Reason:
    return reason(Code.UVERBS_MISSING, device=device, detail=detail)


def _numbers_differ(device: str, node: DeviceNode, numbers: tuple[int, int]) -> Reason:
    return reason(
        Code.UVERBS_NUMBERS_DIFFER,
        device=device,
        node=node.name,
        found=f"{node.major}:{node.minor}",
        expected=f"{numbers[0]}:{numbers[1]}",
    )
