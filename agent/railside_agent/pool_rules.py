"""From the settings to what decisions about each pool need to know. It must not know where files are."""

from collections.abc import Iterator

import msgspec

from railside_agent.mode import Configured
from railside_agent.rules import Rules
from railside_agent.settings import PoolSettings, Settings
from railside_proto.machine import LinkLayer
from railside_proto.pool import Functions, Pool, Selector


class PoolRules(msgspec.Struct, frozen=True, kw_only=True):
    """One pool, and how it is decided about."""

    pool: Pool
    mode: Configured
    rules: Rules


def pool_rules(settings: Settings) -> Iterator[PoolRules]:
    """One for each pool, in the order of the settings."""
    for pool in settings.pools:
        yield PoolRules(pool=_pool(pool, settings), mode=pool.mode or settings.mode, rules=_rules(settings))


def _pool(pool: PoolSettings, settings: Settings) -> Pool:
    shares = pool.shares_per_hca or settings.shares_per_hca
    selector = Selector(
        link_layer=LinkLayer(pool.link_layer),
        functions=Functions(pool.functions),
        software=pool.software_devices,
    )
    return Pool(resource=pool.resource, selector=selector, shares_per_hca=shares)


def _rules(settings: Settings) -> Rules:
    return Rules(
        advertise_topology=settings.advertise_topology,
        tombstone_seconds=settings.tombstone_seconds,
        recovery_seconds=settings.recovery_seconds,
        report_held_unhealthy=settings.report_held_unhealthy,
        gpu_resources=settings.gpu_resources,
    )
