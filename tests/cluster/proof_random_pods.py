"""The embedded kubelet foretells the real one: a hundred random pods under each policy and scope.

It answers for the share of ``make proof``: tests/cluster/run takes this file only when it is named. It must not
compare otherwise than test_random_pods.py does.
"""

from collections import Counter

import pytest

from harness.cluster import Cluster, MakeNode
from side_by_side import SETTINGS, differences

PODS = 100


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("policy", dict.fromkeys(setting.policy for setting in SETTINGS))
async def test_a_hundred_random_pods(
    cluster: Cluster, node: MakeNode, seed: int, fates: Counter[str], policy: str
) -> None:
    """Whatever pods come, go and fall ill, both kubelets deal the same ids and say the same words."""
    settings = [setting for setting in SETTINGS if setting.policy == policy]
    found = await differences(cluster, node, settings, PODS, seed=seed, fates=fates)
    assert not found, "\n\n".join(found)
