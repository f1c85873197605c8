"""The extender's settings: their meaning and defaults. It must not read files or the environment."""

import msgspec

from railside_proto.names import (
    CONFLICTING_RESOURCES,
    EXTENDER_HOST,
    EXTENDER_PORT,
    EXTENDER_PROBE_PORT,
    RESOURCE,
)


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything that can be set."""

    resource: str = RESOURCE
    kubeconfig: str = ""
    listen_host: str = EXTENDER_HOST
    listen_port: int = EXTENDER_PORT
    probe_host: str = EXTENDER_HOST
    probe_port: int = EXTENDER_PROBE_PORT
    bind: bool = False
    most_nodes: int = 8
    hold_seconds: float = 600.0
    default_locality: str = "preferred"
    conflicting_resources: tuple[str, ...] = CONFLICTING_RESOURCES
