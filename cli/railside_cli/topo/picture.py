"""A machine for people and for programs: the tree, the matrix, and what is wrong or left out and what to do.

It must not read anything, and must not print.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from railside_agent.health import obstacle
from railside_agent.status import nothing_found
from railside_cli.topo.headline import ill, verdict
from railside_cli.topo.lines import Hanging
from railside_cli.topo.matrix import Matrix
from railside_cli.topo.tree import tree
from railside_proto.machine import Machine, PciAddress, path_class
from railside_proto.reasons import Code, Reason

_CLASSES: Final = "PIX one switch, PXB several, PHB one host bridge, NODE one NUMA node, SYS across"
_MOST_OF_A_KIND: Final = 3
"""Sentences of one code that are worth reading: a card can have a hundred virtual functions without driver."""

_REMEDY: Final = 2
_SENTENCE_GOES_ON: Final = 4
"""Terminal columns. A sentence goes on further in than its remedy begins, so that the two are told apart."""


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
    """The whole picture: one line, the tree, the matrix, and what is wrong and why."""
    parts: list[RenderableType] = [Hanging(Text(verdict(machine), style="bold"), rest=2), tree(machine)]
    if machine.gpus and machine.hcas:
        parts += [Matrix(machine), Hanging(Text(_CLASSES, style="dim"))]
    reasons = [*ill(machine), *_of_the_machine(machine), *(one.reason for one in machine.excluded)]
    if reasons:
        parts += [Text(), *_reasons(reasons)]
    return Group(*parts)


def _of_the_machine(machine: Machine) -> Iterator[Reason]:
    """What is wrong with no single device."""
    in_the_way, nothing = obstacle(machine), nothing_found(machine)
    if in_the_way is not None:
        yield in_the_way
    if machine.topology_problem is not None:
        yield machine.topology_problem
    # The other way to have nothing is told by the reason of each device.
    if nothing is not None and nothing.code is Code.NO_RDMA_DEVICES:
        yield nothing


def _reasons(reasons: Iterable[Reason]) -> Iterator[Hanging]:
    """What is ill or left out, and what to do about it; of many of one kind the first few."""
    kinds: dict[Code, list[Reason]] = {}
    for why in reasons:
        kinds.setdefault(why.code, []).append(why)
    for alike in kinds.values():
        shown = alike[:_MOST_OF_A_KIND]
        for why in shown:
            yield Hanging(Text(why.sentence, style="yellow"), rest=_SENTENCE_GOES_ON)
        if len(alike) > len(shown):
            yield Hanging(Text(f"and {len(alike) - len(shown)} more of this kind", style="yellow"))
        yield Hanging(Text(shown[-1].remedy, style="dim"), first=_REMEDY, rest=_REMEDY)
