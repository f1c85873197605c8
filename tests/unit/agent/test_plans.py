from pathlib import Path

import pytest
from tests.unit.agent.situations import POOL

from railside_agent.container_edits import Style
from railside_agent.plans import plans
from railside_agent.pool_settings import PoolSettings
from railside_agent.rules import Rules
from railside_agent.settings import Settings
from railside_proto.machine import LinkLayer
from railside_proto.pool import Functions, Pool, Selector

_ROCE = PoolSettings(
    resource="example.com/roce",
    link_layer="Ethernet",
    functions="virtual",
    software_devices=True,
    mode="ib-shared-multi",
    shares_per_hca=4,
)
_TWO = Settings(pools=(PoolSettings(), _ROCE), mode="ib-shared", shares_per_hca=8)


def test_without_settings_there_is_the_platforms_pool() -> None:
    """One pool, by the node's label, bound at each start."""
    (plan,) = plans(Settings())
    assert (POOL, "label", "start", Path("/")) == (plan.rules.pool, plan.rules.mode, plan.binding, plan.root)


def test_a_pool_says_what_it_has_of_its_own() -> None:
    """What a pool does not say is as for the whole node, in the order of the settings."""
    first, second = plans(_TWO)
    virtual = Selector(link_layer=LinkLayer.ETHERNET, functions=Functions.VIRTUAL, software=True)
    assert (Pool(shares_per_hca=8), "ib-shared") == (first.rules.pool, first.rules.mode)
    roce = Pool(resource="example.com/roce", selector=virtual, earlier=(Selector(),), shares_per_hca=4)
    assert (roce, "ib-shared-multi") == (second.rules.pool, second.rules.mode)


def test_the_rules_of_the_node_are_those_of_each_pool() -> None:
    """Every setting that decisions rest on reaches them."""
    settings = Settings(
        pools=_TWO.pools,
        advertise_topology="never",
        tombstone_seconds=5,
        recovery_seconds=7,
        report_held_unhealthy=True,
        gpu_resources=("example.com/gpu",),
    )
    expected = Rules(
        advertise_topology="never",
        tombstone_seconds=5,
        recovery_seconds=7,
        report_held_unhealthy=True,
        gpu_resources=("example.com/gpu",),
    )
    assert [expected, expected] == [plan.rules.rules for plan in plans(settings)]


def test_the_style_differs_by_the_pools_place() -> None:
    """Two pools in one container must not share a spelling of the folder."""
    settings = Settings(pools=_TWO.pools, host_root="/host", nccl_config=True, umad=True)
    expected = [Style(host_root="/host", nccl_config=True, umad=True, pool_index=index) for index in (0, 1)]
    assert expected == [plan.style for plan in plans(settings)]


@pytest.mark.parametrize("binding", ["start", "allocate"])
def test_the_rest_reaches_each_pool(binding: str) -> None:
    """Folders, binding and conflicting resources are those of the settings."""
    settings = Settings(
        root="/machine",
        kubelet_dir="/kubelet",
        binding=binding,  # type: ignore[arg-type]
        conflicting_resources=("example.com/half-a-gpu",),
    )
    (plan,) = plans(settings)
    assert (binding, Path("/machine"), Path("/kubelet"), ("example.com/half-a-gpu",)) == (
        plan.binding,
        plan.root,
        plan.kubelet_dir,
        plan.conflicting,
    )
