"""What a pod can count on at a node: how near its GPUs and HCAs will be, whichever GPUs it is dealt.

It must not decide who fits, nor weigh one node against another.
"""

from collections.abc import Iterator

import msgspec

from railside_extender.admission import Rule, suiting
from railside_extender.demand import Unit, units
from railside_extender.demands import Demand
from railside_extender.layout import worst_paths
from railside_extender.records import Terms
from railside_extender.room import Mask, mask_of
from railside_proto.machine import PathClass
from railside_proto.record import TopologyPolicy
from railside_proto.resource_patterns import matching


class Shape(msgspec.Struct, frozen=True):
    """Which resources are HCAs and which GPUs."""

    hcas: str
    gpus: tuple[str, ...]
    """Patterns."""


class Outlook(msgspec.Struct, frozen=True):
    """What a pod can count on at a node."""

    paths: tuple[PathClass, ...]
    """Of its pairs of GPU and HCA, nearest first."""
    expected: int
    """How many pairs it should have."""


def outlook(demand: Demand, terms: Terms, shape: Shape) -> Outlook:
    """What a pod of ``demand`` can count on where a kubelet has such ``terms``."""
    found: list[PathClass] = []
    expected = 0
    for unit, gpus, hcas in shapes(demand, terms, shape):
        expected += pairs_of(gpus, hcas)
        likeliest = masks_for(unit, terms)[0]
        paths = worst_paths(terms.layout.within(likeliest), gpus, hcas)
        found += paths if paths is not None else _by_nodes(likeliest, pairs_of(gpus, hcas))
    return Outlook(tuple(sorted(found)), expected)


def shapes(demand: Demand, terms: Terms, shape: Shape) -> Iterator[tuple[Unit, int, int]]:
    """The pod's units that ask for HCAs, each with its numbers of GPUs and of HCAs."""
    for unit in units(demand.ask, terms.scope, terms.room.aligned):
        hcas = dict(unit.wants).get(shape.hcas, 0)
        if hcas:
            yield unit, sum(count for name, count in unit.wants if matching(name, shape.gpus)), hcas


def _by_nodes(mask: Mask, pairs: int) -> tuple[PathClass, ...]:
    """What NUMA nodes alone tell, where GPUs cannot be joined to PCI functions (MIG slices, shared GPUs)."""
    return (PathClass.NODE if mask.bit_count() == 1 else PathClass.SYS,) * pairs


def masks_for(unit: Unit, terms: Terms) -> tuple[Mask, ...]:
    """Masks from which the kubelet may deal ``unit``, the likeliest first: all nodes where it aligns none."""
    every = (mask_of(terms.room.numa_nodes, terms.room.numa_nodes),)
    if terms.rule.policy is TopologyPolicy.NONE:
        return every
    return suiting(terms.room, Rule(TopologyPolicy.RESTRICTED, terms.rule.closest), unit) or every


def pairs_of(gpus: int, hcas: int) -> int:
    """How many pairs a container of so many should have."""
    return min(gpus, hcas)
