"""Whether a pod that insists on HCAs beside its GPUs can count on them, whatever GPUs it is dealt.

The kubelet chooses the GPUs, and mostly before anybody else is asked: what must hold holds for every choice. It
must not judge room or alignment.
"""

from railside_extender.demands import Demand
from railside_extender.fit import Misfit, Standing
from railside_extender.layout import Layout, worst_paths
from railside_extender.outlook import Shape, masks_for, pairs_of, shapes
from railside_extender.records import Terms
from railside_proto.machine import PathClass
from railside_proto.reasons import Code, reason


def pcie_misfit(demand: Demand, standing: Standing, shape: Shape) -> Misfit | None:
    """Why the pairs are not to be counted on; None where they are."""
    terms = standing.terms
    if not any(gpus for _, gpus, _ in shapes(demand, terms, shape)):
        return Misfit(reason(Code.PCIE_WITHOUT_GPUS), never=True)
    if not _is_sure(demand, terms, terms.whole, shape):
        return Misfit(reason(Code.PCIE_NEVER), never=True)
    if not _is_sure(demand, terms, terms.layout, shape):
        return Misfit(reason(Code.PCIE_NOT_NOW))
    if standing.others or standing.held_for:
        return Misfit(reason(Code.PCIE_NOT_NOW), passing=not standing.others)
    return None


def _is_sure(demand: Demand, terms: Terms, layout: Layout, shape: Shape) -> bool:
    """For each container by itself, and for all together where there are several: each takes GPUs and HCAs."""
    every = [(gpus, hcas) for _, gpus, hcas in shapes(demand, terms, shape)]
    gpus, hcas = (sum(counts) for counts in zip(*every, strict=True))
    if len(every) > 1 and not _are_near(worst_paths(layout, gpus, hcas), pairs_of(gpus, hcas)):
        return False
    return all(
        _are_near(worst_paths(layout.within(mask), gpus, hcas), pairs_of(gpus, hcas))
        for unit, gpus, hcas in shapes(demand, terms, shape)
        for mask in masks_for(unit, terms)
    )


def _are_near(paths: tuple[PathClass, ...] | None, count: int) -> bool:
    return paths is not None and len(paths) >= count and all(path <= PathClass.PXB for path in paths[:count])
