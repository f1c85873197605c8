"""The agent's settings: their meaning, defaults and limits. It must not read files or the environment itself."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from railside_agent.mode import Configured
from railside_agent.pool_settings import EXAMPLE, POOLS_ALLOWED, PoolSettings, Shares, overlap, pools_problem
from railside_agent.publication import Publish
from railside_agent.rules import AdvertiseTopology, BindingTime
from railside_proto.names import (
    AGENT_ENVIRONMENT,
    AGENT_HOST,
    AGENT_PORT,
    CONFLICTING_RESOURCES,
    GPU_RESOURCES,
    KUBELET_DIR,
    MODE_LABEL,
)
from railside_runtime.log_options import Format, Level
from railside_runtime.setting_kinds import Folder, Megabytes, Milliseconds, Port, Prefix, Resources, Seconds
from railside_runtime.settings import KnownSettings, ListForm, SettingsError

_KubeletCa = Annotated[
    str, Meta(pattern=r"\A(/[^\0\n]*|insecure)?\Z", description="an absolute path, insecure, or empty")
]


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything that can be set. Spelt camelCase in the file, RAILSIDE_AGENT_UPPER_CASE in the environment."""

    root: Annotated[
        Folder,
        Meta(title="folder below which the agent finds sys, proc/driver, dev, run/railside, var/lib/railside"),
    ] = "/"
    host_root: Annotated[
        Prefix, Meta(title="what the kubelet must put before /run/railside: root, as the host sees it")
    ] = ""
    kubelet_dir: Annotated[Folder, Meta(title="the kubelet's folder, as the agent sees it (not below root)")] = (
        KUBELET_DIR
    )
    node_name: Annotated[str, Meta(title="name of the own Node, to read its label and its pods")] = ""
    kubeconfig: Annotated[str, Meta(title="kubeconfig file; empty for the pod's service account")] = ""
    pod_uid: Annotated[str, Meta(title="UID of the agent's own pod, which its record names")] = ""
    publish: Annotated[
        Publish, Meta(title="whether the node's record is published; auto: where nodeName is set")
    ] = "auto"
    kubelet_ca: Annotated[
        _KubeletCa,
        Meta(title="file of who signed the kubelet's certificate; empty: the cluster; insecure: do not check"),
    ] = ""
    mode: Annotated[
        Configured, Meta(title=f"where the mode comes from: the node's label {MODE_LABEL}, or fixed here")
    ] = "label"
    shares_per_hca: Annotated[Shares, Meta(title="containers that one HCA may serve in ib-shared-multi")] = 16
    pools: Annotated[
        tuple[PoolSettings, ...],
        Meta(title="resource names and what stands behind them, a list in YAML or JSON", min_length=1),
    ] = (PoolSettings(),)
    binding: Annotated[
        BindingTime,
        Meta(title="when a container's HCAs are chosen: at each start, or once for runtimes that refuse folders"),
    ] = "start"
    advertise_topology: Annotated[
        AdvertiseTopology, Meta(title="whether the kubelet gets NUMA hints; auto: where they help")
    ] = "auto"
    gpu_resources: Annotated[Resources, Meta(title="patterns of resources whose ids are GPUs")] = GPU_RESOURCES
    conflicting_resources: Annotated[
        Resources, Meta(title="resources that a pod must not use together with an HCA")
    ] = CONFLICTING_RESOURCES
    virtual_topology: Annotated[
        Literal["auto", "sysfs", "file"],
        Meta(title="whether virtualTopology.xml says where devices sit; auto: where sysfs hides it"),
    ] = "auto"
    umad: Annotated[bool, Meta(title="whether containers get umad nodes, to speak to the fabric's management")] = (
        False
    )
    nccl_config: Annotated[bool, Meta(title="whether containers get NCCL_CONF_FILE, which names their HCAs")] = (
        False
    )
    report_held_unhealthy: Annotated[
        bool, Meta(title="whether the kubelet is told that an HCA in a container's hands is ill")
    ] = False
    tombstone_seconds: Annotated[Seconds, Meta(title="how long an id that is withdrawn stays listed")] = 60.0
    recovery_seconds: Annotated[Seconds, Meta(title="how long an HCA must be well before it is offered again")] = (
        10.0
    )
    resync_seconds: Annotated[Seconds, Meta(title="how often the whole tree is looked at again")] = 30.0
    port_poll_seconds: Annotated[Seconds, Meta(title="how often the ports' states are read")] = 1.0
    debounce_milliseconds: Annotated[Milliseconds, Meta(title="how long a burst of kernel events may settle")] = 50
    cross_check_seconds: Annotated[
        Annotated[float, Meta(ge=30, le=86400, description="a number of seconds from 30 to 86400")],
        Meta(title="how often the kubelet is asked who holds what, to check its checkpoint"),
    ] = 300.0
    verbs: Annotated[
        bool, Meta(title="whether ports are followed through pyverbs, too (privileged pods only)")
    ] = False
    recorder_megabytes: Annotated[Megabytes, Meta(title="disk space of the flight recorder; 0: none")] = 16
    listen_host: Annotated[str, Meta(title="address of /livez, /readyz and /status", min_length=1)] = AGENT_HOST
    listen_port: Annotated[Port, Meta(title="port of /livez, /readyz and /status")] = AGENT_PORT
    log_level: Annotated[Level, Meta(title="the least important level that is logged")] = "info"
    log_format: Annotated[Format, Meta(title="json, console, or auto: console at a terminal")] = "auto"


AGENT_SETTINGS: Final = KnownSettings(
    Settings,
    AGENT_ENVIRONMENT,
    lists={"pools": ListForm(example=EXAMPLE, allowed=POOLS_ALLOWED, problem=pools_problem)},
    conflict=lambda settings: overlap(settings.pools),
)


def refuse_unusable(settings: Settings) -> None:
    """Raises SettingsError for what can be printed but not run."""
    if settings.node_name:
        return
    told = f"set {AGENT_SETTINGS.variable('nodeName')} to the node's name (spec.nodeName of the pod), or set"
    if any((pool.mode or settings.mode) == "label" for pool in settings.pools):
        raise SettingsError(f"nodeName is not set, so the label {MODE_LABEL} cannot be read; {told} mode")
    if settings.publish == "always":
        raise SettingsError(f"nodeName is not set, so there is no node to publish a record of; {told} publish")
