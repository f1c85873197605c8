"""The extender's settings: their meaning, defaults and limits.

It must not read files or the environment itself.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from railside_proto.locality import PREFERRED, Locality
from railside_proto.names import (
    CONFLICTING_RESOURCES,
    EXTENDER_ENVIRONMENT,
    EXTENDER_HOST,
    EXTENDER_PORT,
    EXTENDER_PROBE_PORT,
    LOCALITY,
    RESOURCE,
)
from railside_runtime.log_options import Format, Level
from railside_runtime.setting_kinds import Port, Resource, Resources
from railside_runtime.settings import KnownSettings

_Host = Annotated[str, Meta(min_length=1)]


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything that can be set. Spelt camelCase in the file, RAILSIDE_EXTENDER_UPPER_CASE in the environment."""

    resource: Annotated[Resource, Meta(title="the resource that pods ask for, as the agents offer it")] = RESOURCE
    kubeconfig: Annotated[str, Meta(title="kubeconfig file; empty for the pod's service account")] = ""
    listen_host: Annotated[
        _Host, Meta(title="address where the scheduler asks; whoever reaches it may ask, too")
    ] = EXTENDER_HOST
    listen_port: Annotated[Port, Meta(title="port where the scheduler asks")] = EXTENDER_PORT
    probe_host: Annotated[_Host, Meta(title="address of /livez, /readyz, /status and /metrics")] = EXTENDER_HOST
    probe_port: Annotated[Port, Meta(title="port of /livez, /readyz, /status and /metrics")] = EXTENDER_PROBE_PORT
    bind: Annotated[
        bool,
        Meta(
            title="whether it binds pods, too, when its verb is in the scheduler's configuration as bindVerb: bind"
        ),
    ] = False
    most_nodes: Annotated[
        Annotated[int, Meta(ge=0, le=5000, description="a number from 0 to 5000")],
        Meta(title="how many of the fit nodes a pod is offered, the best first; 0: all"),
    ] = 8
    hold_seconds: Annotated[
        Annotated[float, Meta(ge=60, le=86400, description="a number of seconds from 60 to 86400")],
        Meta(title="how long an offer counts whose pod nobody hears of again"),
    ] = 600.0
    default_locality: Annotated[
        Locality, Meta(title=f"how near HCAs and GPUs must be for pods without the annotation {LOCALITY}")
    ] = PREFERRED
    conflicting_resources: Annotated[
        Resources, Meta(title="resources that a pod must not use together with an HCA")
    ] = CONFLICTING_RESOURCES
    log_level: Annotated[Level, Meta(title="the least important level that is logged")] = "info"
    log_format: Annotated[Format, Meta(title="json, console, or auto: console at a terminal")] = "auto"


def _conflict(settings: Settings) -> str | None:
    """Why both servers cannot listen where they should."""
    if settings.listen_port != settings.probe_port:
        return None
    return f"listenPort and probePort are both {settings.listen_port}; they must differ"


EXTENDER_SETTINGS: Final = KnownSettings(Settings, EXTENDER_ENVIRONMENT, conflict=_conflict)
