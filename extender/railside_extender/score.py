"""How good a node is for a pod that fits: 0 to 10, as the scheduler takes it.

It must not decide who fits.
"""

from typing import Final

from railside_extender.admission import Rule
from railside_extender.crowd import everybody_is_safe
from railside_extender.demand import units
from railside_extender.demands import Demand
from railside_extender.fit import Standing
from railside_proto.record import TopologyPolicy

BEST: Final = 10


def score(demand: Demand, standing: Standing) -> int:
    """More for a node that serves the pod from one NUMA node, less for one that others may need whole."""
    if demand.locality == "none":
        return 0
    terms = standing.terms
    wanted = units(demand.ask, terms.scope, terms.room.aligned)
    whole = everybody_is_safe(terms.room, Rule(TopologyPolicy.SINGLE_NUMA_NODE), wanted, (), ())
    narrow = everybody_is_safe(terms.room, Rule(TopologyPolicy.RESTRICTED), wanted, (), ())
    return 7 if whole else 5 if narrow else 0
