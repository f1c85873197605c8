"""The switches that GPUs and HCAs hang below, as branches: each has something of its own, or brings two together.

It must not draw them.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from railside_proto.machine import Function, Gpu, Hca, bridges
from railside_proto.names import TOPOLOGY_FILE


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """A switch, root port or host bridge, what hangs on it, and the switches below it."""

    label: str
    functions: tuple[Hca | Gpu, ...] = ()
    branches: tuple["Branch", ...] = ()


class _Group(NamedTuple):
    """Functions of one switch, and what is above it from the host bridges on, itself included."""

    trunk: tuple[str, ...]
    hosts: int
    """How many parts of ``trunk`` come before its first bridge."""
    functions: tuple[Hca | Gpu, ...]


def branches(functions: Iterable[Hca | Gpu]) -> tuple[Branch, ...]:
    """The branches of ``functions``. Two of them that are PXB or nearer meet in one."""
    ordered = sorted(functions, key=lambda one: (one.path, one.address))
    groups = [_Group(*trunk, tuple(alike)) for trunk, alike in groupby(ordered, key=_trunk)]
    return tuple(_grown(groups, 0))


def _trunk(function: Function) -> tuple[tuple[str, ...], int]:
    """Up to the switch that a function shares with its nearest neighbours, without its own port there."""
    above = bridges(function.path)
    hosts = len(function.path) - len(above)
    own_port = len(above) > 1 and not function.told_by_file
    return (function.path[:-1] if own_port else function.path, hosts)


def _grown(groups: Sequence[_Group], known: int) -> Iterator[Branch]:
    """Branches below ``known`` parts of the trunk, which all ``groups`` share."""
    for _, several in groupby(groups, key=lambda one: one.trunk[: max(known, one.hosts) + 1]):
        alike = list(several)
        shared = _shared([one.trunk for one in alike])
        here = [one for one in alike if len(one.trunk) == shared]
        yield Branch(
            label=_label(alike[0], shared),
            functions=tuple(function for one in here for function in one.functions),
            branches=tuple(_grown([one for one in alike if len(one.trunk) > shared], shared)),
        )


def _shared(trunks: Sequence[tuple[str, ...]]) -> int:
    """How many parts all ``trunks`` begin with."""
    same = [len(set(parts)) == 1 for parts in zip(*trunks, strict=False)]
    return same.index(False) if False in same else len(same)


def _label(group: _Group, length: int) -> str:
    """What stands at the end of the first ``length`` parts of the group's trunk."""
    if not length:
        return "place unknown"
    end, depth = group.trunk[length - 1], length - group.hosts
    if group.functions[0].told_by_file and depth:
        return f"switch {end} of {TOPOLOGY_FILE}"
    return end if not depth else f"{'root port' if depth == 1 else 'switch'} {end}"
