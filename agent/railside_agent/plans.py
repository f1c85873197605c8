"""From the settings to what each pool is to be. It must not read or serve anything."""

from collections.abc import Iterator
from pathlib import Path

from railside_agent.container_edits import Style
from railside_agent.pool_agent import PoolPlan
from railside_agent.rules import Rules
from railside_agent.settings import PoolSettings, Settings
from railside_proto.machine import LinkLayer
from railside_proto.pool import Functions, Pool, Selector


def plans(settings: Settings) -> Iterator[PoolPlan]:
    """One plan for each pool, in the order of the settings."""
    for index, pool in enumerate(settings.pools):
        yield PoolPlan(
            pool=_pool(pool, settings),
            mode=pool.mode or settings.mode,
            rules=_rules(settings),
            style=_style(settings, index),
            binding=settings.binding,
            root=Path(settings.root),
            kubelet_dir=Path(settings.kubelet_dir),
            conflicting=settings.conflicting_resources,
        )


def selectors(settings: Settings) -> tuple[Selector, ...]:
    """Which devices stand behind any pool."""
    return tuple(map(_selector, settings.pools))


def _pool(pool: PoolSettings, settings: Settings) -> Pool:
    shares = pool.shares_per_hca or settings.shares_per_hca
    return Pool(resource=pool.resource, selector=_selector(pool), shares_per_hca=shares)


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


def _style(settings: Settings, index: int) -> Style:
    return Style(
        host_root=settings.host_root,
        nccl_config=settings.nccl_config,
        umad=settings.umad,
        pool_index=index,
    )
