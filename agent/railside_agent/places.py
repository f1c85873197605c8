"""Says where functions sit: on which NUMA node, below which bridges, by sysfs and by virtualTopology.xml.

It must not read anything, and must not decide which function is offered.
"""

from collections.abc import Iterable

import msgspec

from railside_agent.kernel_text import integer, pci_address
from railside_agent.raw_machine import RawFunction, RawMachine, RawNumaNode
from railside_agent.virtual_topology import ToldPlace, TopologySource, VirtualTopology, virtual_topology
from railside_proto.machine import NumaNode, PciAddress, bridges
from railside_proto.reasons import Reason


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where one function sits, as the fields of ``Function``."""

    path: tuple[str, ...]
    numa_node: int | None
    told_by_file: bool


class Places:
    """Where every function of a machine sits."""

    def __init__(self, raw: RawMachine, numa_nodes: tuple[NumaNode, ...], source: TopologySource) -> None:
        """Weigh what sysfs shows against what the file tells, once for the whole machine."""
        self._functions = {pci_address(function.address): function for function in raw.functions}
        self._numbers = {node.number for node in numa_nodes}
        self._only_number = _only_number(raw.numa_nodes, numa_nodes)
        told = None if source is TopologySource.SYSFS else raw.virtual_topology_text
        topology = virtual_topology(told) if told is not None else None
        self.problem = topology if isinstance(topology, Reason) else None
        self._told = topology.places if isinstance(topology, VirtualTopology) else {}
        self._paths_told = source is TopologySource.FILE or self._is_flat()

    def function(self, address: PciAddress) -> RawFunction | None:
        """What sysfs says of the function at ``address``; None where the tree does not list it."""
        return self._functions.get(address)

    def find(self, address: PciAddress) -> Place:
        """Where the function at ``address`` sits."""
        function = self._functions.get(address) or RawFunction(address=address, path=())
        told = self._told.get(address)
        by_file = told is not None and self._paths_told
        return Place(
            path=told.path if told is not None and by_file else function.path,
            numa_node=self._numa_node(function, told),
            told_by_file=by_file,
        )

    def _is_flat(self) -> bool:
        """Whether sysfs hides of what the file places how it hangs together, as in most virtual machines.

        All functions are judged at once: of two paths from different sources nothing can be said.
        """
        shown = [function for address, function in self._functions.items() if address in self._told]
        below_switch = any(len(bridges(function.path)) > 1 for function in shown)
        return not (below_switch and any(self._shown_node(function) is not None for function in shown))

    def _numa_node(self, function: RawFunction, told: ToldPlace | None) -> int | None:
        """Its NUMA node, if the machine has that one: a hint for another node would bar the pod (kubelet)."""
        shown = self._shown_node(function)
        if shown is not None:
            return shown
        if integer(function.numa_node) not in {-1, None}:
            return None
        number = self._only_number if told is None or self._only_number is not None else told.numa_node
        return number if number in self._numbers else None

    def _shown_node(self, function: RawFunction) -> int | None:
        number = integer(function.numa_node)
        return number if number in self._numbers else None


def _only_number(raw: Iterable[RawNumaNode], listed: tuple[NumaNode, ...]) -> int | None:
    """The one NUMA node of a machine that has no other, on which everything is, whatever the firmware forgot."""
    places = [node for node in raw if node.cpulist != ""]
    return listed[0].number if len(places) == len(listed) == 1 else None


def numa_nodes(raw: Iterable[RawNumaNode]) -> tuple[NumaNode, ...]:
    """Nodes with CPUs, by number: a GPU's memory is a node of its own and no place for a pod."""
    listed = sorted(raw, key=_number)
    kept = [index for index, node in enumerate(listed) if node.cpulist]
    return tuple(
        NumaNode(
            number=_number(listed[index]),
            cpus=listed[index].cpulist or "",
            distances=_distances(listed[index], kept, len(listed)),
        )
        for index in kept
    )


def _number(node: RawNumaNode) -> int:
    return int(node.name.removeprefix("node"))


def _distances(node: RawNumaNode, kept: list[int], listed: int) -> tuple[int, ...]:
    """The kernel prints one for each node that is online, those of memory alone among them."""
    found = [integer(word) for word in (node.distance or "").split()]
    sound = [each for each in found if each is not None and each > 0]
    return tuple(sound[index] for index in kept) if len(found) == len(sound) == listed else ()
