"""From the settings to what serves each pool. It must not read or serve anything."""

from collections.abc import Iterator
from pathlib import Path

from railside_agent.container_edits import Style
from railside_agent.pool_agent import PoolPlan
from railside_agent.pool_rules import pool_rules
from railside_agent.settings import Settings


def plans(settings: Settings) -> Iterator[PoolPlan]:
    """One plan for each pool, in the order of the settings."""
    for index, rules in enumerate(pool_rules(settings)):
        yield PoolPlan(
            rules=rules,
            style=_style(settings, index),
            binding=settings.binding,
            root=Path(settings.root),
            kubelet_dir=Path(settings.kubelet_dir),
            conflicting=settings.conflicting_resources,
        )


def _style(settings: Settings, index: int) -> Style:
    return Style(
        host_root=settings.host_root,
        nccl_config=settings.nccl_config,
        umad=settings.umad,
        pool_index=index,
    )
