"""How many GPUs an HCA is near, and how many could have been: an exhaustive search that knows the GPUs.

It answers for the oracle that choosers are held against. It must not share a line with the product's own pairing.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence

Partners = Mapping[str, frozenset[str]]
"""By GPU the HCAs at PIX or PXB."""


def paired(gpus: Sequence[str], hcas: Collection[str], partners: Partners) -> int:
    """How many of ``gpus`` have an HCA of their own near them, at best."""
    if not gpus:
        return 0
    first, *rest = gpus
    with_first = (
        1 + paired(rest, [one for one in hcas if one != partner], partners)
        for partner in partners[first].intersection(hcas)
    )
    return max(paired(rest, hcas, partners), *with_first, 0)


def possible(
    gpus: Sequence[str], seats: Mapping[int, int], free: Mapping[int, Collection[str]], partners: Partners
) -> int:
    """The most that any choice gives which takes ``seats`` of each NUMA node from those ``free`` there.

    None can be made where too few are, which gives 0.
    """
    by_node = [itertools.combinations(sorted(free[node]), count) for node, count in seats.items()]
    choices = itertools.product(*by_node)
    return max((paired(gpus, [*itertools.chain(*choice)], partners) for choice in choices), default=0)
