import pytest

from railside_agent.pool_rules import pool_rules
from railside_agent.pool_settings import PoolSettings
from railside_agent.rules import Rules
from railside_agent.settings import Settings
from railside_proto.machine import LinkLayer
from railside_proto.names import RESOURCE
from railside_proto.pool import Functions, Pool, Selector

_INFINIBAND, _ROCE = Selector(), Selector(link_layer=LinkLayer.ETHERNET)


def test_a_node_has_the_platforms_pool_unless_told_otherwise() -> None:
    """Without settings there is one pool, of the platform's resource, in the mode of the node's label."""
    (one,) = pool_rules(Settings())
    assert (one.pool, one.mode) == (Pool(resource=RESOURCE), "label")


def test_a_pool_knows_those_before_it() -> None:
    """Pools stand in the order of the settings, and each leaves to those before it what they take."""
    names = ("a/x", "b/y", "c/z")
    layers: tuple[LinkLayer, ...] = (LinkLayer.INFINIBAND, LinkLayer.ETHERNET, LinkLayer.INFINIBAND)
    settings = Settings(
        pools=tuple(
            PoolSettings(resource=name, link_layer=layer.value)  # type: ignore[arg-type]
            for name, layer in zip(names, layers, strict=True)
        )
    )
    found = [(one.pool.resource, one.pool.selector, one.pool.earlier) for one in pool_rules(settings)]
    assert found == [
        ("a/x", _INFINIBAND, ()),
        ("b/y", _ROCE, (_INFINIBAND,)),
        ("c/z", _INFINIBAND, (_INFINIBAND, _ROCE)),
    ]


@pytest.mark.parametrize(
    ("of_pool", "mode", "shares"),
    [
        pytest.param(PoolSettings(), "ib-shared", 8, id="as-the-node"),
        pytest.param(PoolSettings(mode="ib-shared-multi", shares_per_hca=2), "ib-shared-multi", 2, id="its-own"),
        pytest.param(PoolSettings(mode="label"), "label", 8, id="its-mode-alone"),
    ],
)
def test_what_a_pool_does_not_say_is_as_for_the_node(of_pool: PoolSettings, mode: str, shares: int) -> None:
    """Mode and share of a pool go before those of the node."""
    (one,) = pool_rules(Settings(pools=(of_pool,), mode="ib-shared", shares_per_hca=8))
    assert (one.mode, one.pool.shares_per_hca) == (mode, shares)


def test_a_pools_devices() -> None:
    """Functions and software devices are chosen for each pool."""
    (one,) = pool_rules(Settings(pools=(PoolSettings(functions="virtual", software_devices=True),)))
    assert one.pool.selector == Selector(functions=Functions.VIRTUAL, software=True)


def test_the_nodes_rules_are_those_of_each_pool() -> None:
    """Every setting that decisions rest on reaches each pool, none of them with a default of its own."""
    settings = Settings(
        pools=(PoolSettings(), PoolSettings(resource="a/x")),
        advertise_topology="never",
        tombstone_seconds=61,
        recovery_seconds=11,
        report_held_unhealthy=True,
        gpu_resources=("x/gpu",),
    )
    expected = Rules(
        advertise_topology="never",
        tombstone_seconds=61,
        recovery_seconds=11,
        report_held_unhealthy=True,
        gpu_resources=("x/gpu",),
    )
    assert [one.rules for one in pool_rules(settings)] == [expected] * 2
