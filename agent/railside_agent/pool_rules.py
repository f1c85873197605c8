"""From the settings to what decisions about each pool need to know. It must not know where files are."""

from collections.abc import Iterator

import msgspec

from railside_agent.mode import Configured
from railside_agent.pool_settings import PoolSettings
from railside_agent.rules import Rules
from railside_agent.settings import Settings
from railside_proto.machine import LinkLayer
from railside_proto.pool import Functions, Pool, Selector


class PoolRules(msgspec.Struct, frozen=True, kw_only=True):
    """One pool, and how it is decided about."""

    pool: Pool
    mode: Configured
    rules: Rules


def pool_rules(settings: Settings) -> Iterator[PoolRules]:
    """One for each pool, in the order of the settings."""
    selectors = tuple(map(_selector, settings.pools))
    for index, one in enumerate(settings.pools):
        pool = Pool(
            resource=one.resource,
            selector=selectors[index],
            earlier=selectors[:index],
            shares_per_hca=one.shares_per_hca or settings.shares_per_hca,
        )
        yield PoolRules(pool=pool, mode=one.mode or settings.mode, rules=_rules(settings))


def _selector(pool: PoolSettings) -> Selector:
    return Selector(
        link_layer=LinkLayer(pool.link_layer),
        functions=Functions(pool.functions),
        software=pool.software_devices,
    )


def _rules(settings: Settings) -> Rules:
    return Rules(
        advertise_topology=settings.advertise_topology,
        tombstone_seconds=settings.tombstone_seconds,
        recovery_seconds=settings.recovery_seconds,
        report_held_unhealthy=settings.report_held_unhealthy,
        gpu_resources=settings.gpu_resources,
    )
