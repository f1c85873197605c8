"""Draws a machine: what hangs below which NUMA node and switch, and how far every GPU is from every HCA.

It must not read anything, and must not print.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import msgspec
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from railside_agent.health import illness
from railside_proto.machine import (
    Function,
    Gpu,
    Hca,
    LinkLayer,
    Machine,
    NetnsMode,
    PathClass,
    PciAddress,
    Port,
    PortState,
    bridges,
    path_class,
)
from railside_proto.names import TOPOLOGY_FILE
from railside_proto.reasons import Code, Reason, reason

_CLASSES = "PIX one switch, PXB several, PHB one host bridge, NODE one NUMA node, SYS across"
_MOST_OF_A_KIND = 3
"""Sentences of one code that are worth reading: a card can have a hundred virtual functions without driver."""

_MATRIX_WIDTH = 72
_WIDEST_CLASS = 4
_GAP = 2
"""Terminal columns: of all HCAs together in one piece of the matrix, of ``NODE``, and between two cells."""

_COLOURS = {
    PathClass.PIX: "bold green",
    PathClass.PXB: "green",
    PathClass.PHB: "yellow",
    PathClass.NODE: "yellow",
    PathClass.SYS: "dim",
}


def verdict(machine: Machine) -> str:
    """The machine in one line."""
    near = sum(1 for gpu in machine.gpus if _nearest(gpu, machine.hcas) <= PathClass.PXB)
    sound = len(machine.hcas) - len(ill(machine))
    gpus = f"{_count(len(machine.gpus), 'GPU')}, {near} beside an HCA" if machine.gpus else "no GPU"
    hcas = f"{sound} of {_count(len(machine.hcas), 'HCA')} sound, {len(machine.excluded)} left out"
    return f"{hcas}; {gpus}; {_count(len(machine.numa_nodes), 'NUMA node')}"


def ill(machine: Machine) -> tuple[Reason, ...]:
    """Why HCAs that could be offered cannot be used now."""
    return tuple(why for hca in machine.hcas if (why := illness(hca)) is not None)


class TopoAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What ``-o json`` prints."""

    verdict: str
    machine: Machine
    paths: dict[PciAddress, dict[PciAddress, str]]
    """The path class by GPU and HCA, both by address."""


def answer(machine: Machine) -> TopoAnswer:
    """The picture for programs."""
    paths = {gpu.address: {hca.address: path_class(gpu, hca).name for hca in machine.hcas} for gpu in machine.gpus}
    return TopoAnswer(verdict=verdict(machine), machine=machine, paths=paths)


def picture(machine: Machine) -> RenderableType:
    """The whole picture: the tree, the matrix, and what is left out and why."""
    parts: list[RenderableType] = [_tree(machine)]
    if machine.gpus and machine.hcas:
        parts += [*_matrices(machine), Text(_CLASSES, style="dim")]
    reasons = [*ill(machine), *_of_the_machine(machine), *(one.reason for one in machine.excluded)]
    if reasons:
        parts += [Text(), *_reasons(reasons)]
    return Group(*parts)


def gpu_names(machine: Machine) -> dict[str, str]:
    """GPU0, GPU1, ... by address, in the order in which NVIDIA's tools count them."""
    return {gpu.address: f"GPU{number}" for number, gpu in enumerate(machine.gpus)}


def _nearest(gpu: Gpu, hcas: Iterable[Hca]) -> PathClass:
    return min((path_class(gpu, hca) for hca in hcas), default=PathClass.SYS)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _tree(machine: Machine) -> Tree:
    root = Tree("machine", hide_root=True)
    names = gpu_names(machine)
    widths = _widths(machine)
    cpus = {node.number: node.cpus for node in machine.numa_nodes}
    functions: Sequence[Hca | Gpu] = sorted((*machine.hcas, *machine.gpus), key=_place)
    found = {numa_node: list(group) for numa_node, group in groupby(functions, key=lambda one: one.numa_node)}
    for numa_node in [*cpus, *(number for number in found if number not in cpus)]:
        known = f"NUMA {numa_node}  [dim]cpus {escape(cpus.get(numa_node, '?'))}[/]"
        branch = root.add(_text("NUMA node unknown" if numa_node is None else known))
        for switch, below in groupby(found.get(numa_node, ()), key=_switch):
            inner = branch.add(_text(f"[dim]{escape(switch)}[/]"))
            for function in below:
                inner.add(_line(function, names, widths))
    return root


def _widths(machine: Machine) -> tuple[int, int]:
    """Of the columns of names and addresses: the longest, so that all lines stand below each other."""
    names = [*gpu_names(machine).values(), *(hca.name for hca in machine.hcas)]
    addresses = [function.address for function in (*machine.gpus, *machine.hcas)]
    return max((12, *map(len, names))), max((12, *map(len, addresses)))


def _place(function: Function) -> tuple[bool, int, tuple[str, ...], str]:
    number = function.numa_node
    return (number is None, number or 0, function.path, function.address)


def _switch(function: Function) -> str:
    """The switch, root port or host bridge that a function shares with its nearest neighbours."""
    above = bridges(function.path)
    if not above:
        return function.path[-1] if function.path else "place unknown"
    if function.told_by_file:
        return f"switch {above[-1]} of {TOPOLOGY_FILE}"
    return f"switch {above[-2]}" if len(above) > 1 else f"root port {above[-1]}"


def _line(function: Hca | Gpu, names: dict[str, str], widths: tuple[int, int]) -> Table:
    line = Table.grid(padding=(0, 2))
    for width in widths:
        line.add_column(width=width)
    line.add_column()
    match function:
        case Gpu():
            line.add_row(
                _text(f"[cyan]{names[function.address]}[/]"), Text(function.address), Text(function.model)
            )
        case Hca():
            name = _text(f"[green]{escape(function.name)}[/]")
            line.add_row(name, Text(function.address), _text(_ports(function)))
    return line


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


def _matrices(machine: Machine) -> Iterator[RenderableType]:
    """The matrix, in several pieces where its columns are too many for a terminal."""
    widest = max(len(hca.name) for hca in machine.hcas)
    pieces = -(-len(machine.hcas) * (max(widest, _WIDEST_CLASS) + _GAP) // _MATRIX_WIDTH)
    size = -(-len(machine.hcas) // pieces)
    for start in range(0, len(machine.hcas), size):
        yield Text()
        yield _matrix(machine, machine.hcas[start : start + size])


def _matrix(machine: Machine, hcas: Sequence[Hca]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="green")
    table.add_column("", no_wrap=True)
    for hca in hcas:
        table.add_column(Text(hca.name), justify="center", no_wrap=True)
    names = gpu_names(machine)
    for gpu in machine.gpus:
        cells = (Text(path.name, style=_COLOURS[path]) for path in (path_class(gpu, hca) for hca in hcas))
        table.add_row(Text(names[gpu.address], style="cyan"), *cells)
    return table


def _text(markup: str) -> Text:
    """Markup as it is meant: the bus of ``0000:ab:00.0`` is no picture of the letters AB."""
    return Text.from_markup(markup, emoji=False)


def _of_the_machine(machine: Machine) -> Iterator[Reason]:
    """What is wrong with no single device."""
    if machine.netns_mode is NetnsMode.EXCLUSIVE:
        yield reason(Code.NETNS_EXCLUSIVE)
    if machine.topology_problem is not None:
        yield machine.topology_problem


def _reasons(reasons: Iterable[Reason]) -> Iterator[Text]:
    """What is ill or left out, and what to do about it; of many of one kind the first few."""
    kinds: dict[Code, list[Reason]] = {}
    for why in reasons:
        kinds.setdefault(why.code, []).append(why)
    for alike in kinds.values():
        shown = alike[:_MOST_OF_A_KIND]
        yield from (Text(why.sentence, style="yellow") for why in shown)
        if len(alike) > len(shown):
            yield Text(f"and {len(alike) - len(shown)} more of this kind", style="yellow")
        yield Text(f"  {shown[-1].remedy}", style="dim")
