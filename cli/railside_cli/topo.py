"""Draws a machine: what hangs below which NUMA node and switch, and how far every GPU is from every HCA.

It must not read anything, and must not print.
"""

from collections.abc import Iterable, Sequence
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
    PathClass,
    PciAddress,
    Port,
    PortState,
    path_class,
)
from railside_proto.reasons import Reason

_CLASSES = "PIX one switch, PXB several, PHB one host bridge, NODE one NUMA node, SYS across"
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
        parts += [Text(), _matrix(machine), Text(_CLASSES, style="dim")]
    reasons = [*ill(machine), *(one.reason for one in machine.excluded)]
    if reasons:
        parts += [Text(), *map(_reason, reasons)]
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
    cpus = {node.number: node.cpus for node in machine.numa_nodes}
    functions: Sequence[Hca | Gpu] = sorted((*machine.hcas, *machine.gpus), key=_place)
    found = {numa_node: list(group) for numa_node, group in groupby(functions, key=lambda one: one.numa_node)}
    for numa_node in [*cpus, *(number for number in found if number not in cpus)]:
        known = f"NUMA {numa_node}  [dim]cpus {escape(cpus.get(numa_node, '?'))}[/]"
        branch = root.add("NUMA node unknown" if numa_node is None else known)
        for switch, below in groupby(found.get(numa_node, ()), key=_switch):
            inner = branch.add(f"[dim]{escape(switch)}[/]")
            for function in below:
                inner.add(_line(function, names))
    return root


def _place(function: Function) -> tuple[bool, int, tuple[str, ...], str]:
    number = function.numa_node
    return (number is None, number or 0, function.path, function.address)


def _switch(function: Function) -> str:
    """The switch, root port or host bridge that a function shares with its nearest neighbours."""
    bridges = function.path[1:]
    if not bridges:
        return function.path[0] if function.path else "place unknown"
    return f"switch {bridges[-2]}" if len(bridges) > 1 else f"root port {bridges[-1]}"


def _line(function: Hca | Gpu, names: dict[str, str]) -> Table:
    line = Table.grid(padding=(0, 2))
    line.add_column(width=12)
    line.add_column(width=12)
    line.add_column()
    match function:
        case Gpu():
            line.add_row(f"[cyan]{names[function.address]}[/]", function.address, escape(function.model))
        case Hca():
            line.add_row(f"[green]{escape(function.name)}[/]", function.address, _ports(function))
    return line


def _ports(hca: Hca) -> str:
    ports = ", ".join(_port(port) for port in hca.ports)
    return f"{escape(hca.uverbs.name)}  {ports}"


def _port(port: Port) -> str:
    layer = "" if port.link_layer is LinkLayer.INFINIBAND else f" {port.link_layer}"
    state = port.state if port.state is PortState.ACTIVE else f"[red]{port.state}[/]"
    return f"{port.rate_gbps:g} Gb/s {state}{layer}"


def _matrix(machine: Machine) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="green")
    table.add_column("")
    for hca in machine.hcas:
        table.add_column(escape(hca.name), justify="center")
    names = gpu_names(machine)
    for gpu in machine.gpus:
        table.add_row(f"[cyan]{names[gpu.address]}[/]", *(_cell(path_class(gpu, hca)) for hca in machine.hcas))
    return table


def _cell(path: PathClass) -> str:
    return f"[{_COLOURS[path]}]{path.name}[/]"


def _reason(why: Reason) -> str:
    """What is ill or left out, and what to do about it."""
    return f"[yellow]{escape(why.sentence)}[/]\n  [dim]{escape(why.remedy)}[/]"
