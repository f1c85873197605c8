"""The embedded kubelet foretells the real one: a few random pods under each policy and scope.

It answers for the share of ``make test``; proof_random_pods.py has many more. It must not test the product.
"""

from collections import Counter

import pytest

from harness.cluster import Cluster, MakeNode
from side_by_side import SETTINGS, differences

PODS = 8


@pytest.mark.timeout(600)
async def test_random_pods(cluster: Cluster, node: MakeNode, seed: int, fates: Counter[str]) -> None:
    """Whatever pods come, go and fall ill, both kubelets deal the same ids and say the same words."""
    found = await differences(cluster, node, SETTINGS, PODS, seed=seed, fates=fates)
    assert not found, "\n\n".join(found)
