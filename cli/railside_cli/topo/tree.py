"""What hangs below which NUMA node and switch: GPUs and HCAs, with what is known of each.

It must not judge what it draws.
"""

from collections.abc import Iterable, Mapping

from rich.markup import escape
from rich.text import Text
from rich.tree import Tree

from railside_cli.topo.branches import Branch, branches
from railside_cli.topo.lines import Hanging, marked_up
from railside_proto.machine import Gpu, Hca, LinkLayer, Machine, Port, PortState

_NARROWEST = 12
"""Of the columns of names and addresses."""

_FURTHER_IN = 2


def tree(machine: Machine) -> Tree:
    """The machine from its NUMA nodes down."""
    root = Tree("machine", hide_root=True)
    writer = _Writer(machine)
    cpus = {node.number: node.cpus for node in machine.numa_nodes}
    found: dict[int | None, list[Hca | Gpu]] = {}
    functions: tuple[Hca | Gpu, ...] = (*machine.hcas, *machine.gpus)
    for function in functions:
        found.setdefault(function.numa_node, []).append(function)
    others = sorted(found.keys() - cpus.keys(), key=lambda number: (number is None, number or 0))
    for numa_node in [*cpus, *others]:
        known = f"NUMA {numa_node}  [dim]cpus {escape(cpus.get(numa_node or 0, '?'))}[/]"
        label = marked_up("NUMA node unknown" if numa_node is None else known)
        writer.grow(root.add(_hanging(label)), branches(found.get(numa_node, ())))
    return root


def gpu_names(machine: Machine) -> dict[str, str]:
    """GPU0, GPU1, ... by address, in the order in which NVIDIA's tools count them."""
    return {gpu.address: f"GPU{number}" for number, gpu in enumerate(machine.gpus)}


class _Writer:
    """Writes functions in columns as wide as the machine's longest name and address."""

    def __init__(self, machine: Machine) -> None:
        self._names: Mapping[str, str] = gpu_names(machine)
        names = [*self._names.values(), *(hca.name for hca in machine.hcas)]
        addresses = [function.address for function in (*machine.gpus, *machine.hcas)]
        self._widths = tuple(max((_NARROWEST, *map(len, column))) for column in (names, addresses))

    def grow(self, trunk: Tree, grown: Iterable[Branch]) -> None:
        for one in grown:
            inner = trunk.add(_hanging(Text(one.label, style="dim")))
            for function in one.functions:
                inner.add(_hanging(self._line(function)))
            self.grow(inner, one.branches)

    def _line(self, function: Hca | Gpu) -> Text:
        match function:
            case Gpu():
                name, about = Text(self._names[function.address], style="cyan"), Text(function.model)
            case Hca():
                name, about = Text(function.name, style="green"), marked_up(_ports(function))
        name.pad_right(max(0, self._widths[0] - name.cell_len) + 2)
        return name.append(f"{function.address:{self._widths[1]}}  ", style="default").append_text(about)


def _hanging(label: Text) -> Hanging:
    return Hanging(label, rest=_FURTHER_IN)


def _ports(hca: Hca) -> str:
    ports = "[red]does not answer[/]" if hca.silent else ", ".join(_port(port) for port in hca.ports)
    virtual = "" if hca.parent is None else f"  [dim]virtual function of {escape(hca.parent)}[/]"
    return f"{escape(hca.uverbs.name)}  {ports}{virtual}"


def _port(port: Port) -> str:
    layer = "" if port.link_layer is LinkLayer.INFINIBAND else f" {port.link_layer}"
    return f"{port.rate_gbps:g} Gb/s {_state(port)}{layer}"


def _state(port: Port) -> str:
    """What keeps a port from being active: it may be its link, and it may be the fabric's manager."""
    if port.state is PortState.ACTIVE:
        return str(port.state)
    why = escape(port.phys_state) if port.phys_state not in {"", "LinkUp"} else ""
    if port.state is PortState.INIT and not port.sm_lid:
        why = "no subnet manager"
    return f"[red]{port.state}{f' ({why})' if why else ''}[/]"
