"""How good a node is for a pod that fits: 0 to 10, as the scheduler takes it.

It must not decide who fits.
"""

from collections.abc import Mapping
from typing import Final

from railside_extender.demands import Demand
from railside_extender.outlook import Outlook, Shape, outlook
from railside_extender.records import Terms
from railside_proto.locality import NO_LOCALITY
from railside_proto.machine import PathClass

BEST: Final = 10
_NEARNESS: Final = 7
"""The most that nearness counts; the rest is for leaving other nodes whole."""

_WORTH: Final[Mapping[PathClass, float]] = {
    PathClass.PIX: 1.0,
    PathClass.PXB: 1.0,
    PathClass.PHB: 0.6,
    PathClass.NODE: 0.5,
    PathClass.SYS: 0.0,
}
"""Of a pair: on one switch, below one host bridge, on one NUMA node, or across."""


def score(demand: Demand, terms: Terms, shape: Shape) -> int:
    """More for nearer pairs; among equals more for a node that is in use already."""
    if demand.locality == NO_LOCALITY:
        return 0
    near = nearness(outlook(demand, terms, shape))
    return round(_NEARNESS * near + (BEST - _NEARNESS) * _used(terms, shape.hcas))


def nearness(found: Outlook) -> float:
    """0 to 1. A pod that wants no pairs is served as well anywhere."""
    return sum(_WORTH[path] for path in found.paths) / found.expected if found.expected else 1.0


def _used(terms: Terms, resource: str) -> float:
    """How much of what is listed is not free, 0 to 1."""
    supply = dict(terms.room.supplies).get(resource)
    listed = sum(group.listed for group in supply.groups) if supply else 0
    return 1 - sum(supply.free) / listed if supply and listed else 0.0
