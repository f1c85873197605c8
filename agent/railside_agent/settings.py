"""The agent's settings: their meaning, defaults and limits, and where each value came from.

A flag beats the environment, the environment beats the file, the file beats the default. It must not read
files or the environment itself.
"""

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from railside_agent.mode import Configured
from railside_agent.pool_settings import EXAMPLE, POOLS_ALLOWED, PoolSettings, Shares, overlap, pools_problem
from railside_agent.rules import AdvertiseTopology, BindingTime
from railside_agent.setting_words import allowed, kind, nearest, shown, spelt, title
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

_Folder = Annotated[str, Meta(pattern=r"\A/[^\0\n]*\Z", description="an absolute path")]
_Prefix = Annotated[
    str, Meta(pattern=r"\A(/[^\0\n]*[^/\0\n])?\Z", description="an absolute path without a last /, or empty")
]
_Port = Annotated[int, Meta(ge=1, le=65535, description="a number from 1 to 65535")]
_Seconds = Annotated[float, Meta(ge=1, le=3600, description="a number of seconds from 1 to 3600")]
_Milliseconds = Annotated[int, Meta(ge=1, le=1000, description="a number of milliseconds from 1 to 1000")]
_Megabytes = Annotated[int, Meta(ge=0, le=1024, description="a number of megabytes from 0 to 1024")]


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything that can be set. Spelt camelCase in the file, RAILSIDE_AGENT_UPPER_CASE in the environment."""

    root: Annotated[
        _Folder,
        Meta(title="folder below which the agent finds sys, proc/driver, dev, run/railside, var/lib/railside"),
    ] = "/"
    host_root: Annotated[
        _Prefix, Meta(title="what the kubelet must put before /run/railside: root, as the host sees it")
    ] = ""
    kubelet_dir: Annotated[_Folder, Meta(title="the kubelet's folder, as the agent sees it (not below root)")] = (
        KUBELET_DIR
    )
    node_name: Annotated[str, Meta(title="name of the own Node, to read its label and its pods")] = ""
    kubeconfig: Annotated[str, Meta(title="kubeconfig file; empty for the pod's service account")] = ""
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
    gpu_resources: Annotated[
        tuple[str, ...],
        Meta(title="patterns of resources whose ids are GPUs", description="a list of resource names"),
    ] = GPU_RESOURCES
    conflicting_resources: Annotated[
        tuple[str, ...],
        Meta(
            title="resources that a pod must not use together with an HCA",
            description="a list of resource names",
        ),
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
    tombstone_seconds: Annotated[_Seconds, Meta(title="how long an id that is withdrawn stays listed")] = 60.0
    recovery_seconds: Annotated[
        _Seconds, Meta(title="how long an HCA must be well before it is offered again")
    ] = 10.0
    resync_seconds: Annotated[_Seconds, Meta(title="how often the whole tree is looked at again")] = 30.0
    port_poll_seconds: Annotated[_Seconds, Meta(title="how often the ports' states are read")] = 1.0
    debounce_milliseconds: Annotated[_Milliseconds, Meta(title="how long a burst of kernel events may settle")] = (
        50
    )
    cross_check_seconds: Annotated[
        Annotated[float, Meta(ge=30, le=86400, description="a number of seconds from 30 to 86400")],
        Meta(title="how often the kubelet is asked who holds what, to check its checkpoint"),
    ] = 300.0
    verbs: Annotated[
        bool, Meta(title="whether ports are followed through pyverbs, too (privileged pods only)")
    ] = False
    recorder_megabytes: Annotated[_Megabytes, Meta(title="disk space of the flight recorder; 0: none")] = 16
    listen_host: Annotated[str, Meta(title="address of /livez, /readyz and /status", min_length=1)] = AGENT_HOST
    listen_port: Annotated[_Port, Meta(title="port of /livez, /readyz and /status")] = AGENT_PORT
    log_level: Annotated[Level, Meta(title="the least important level that is logged")] = "info"
    log_format: Annotated[Format, Meta(title="json, console, or auto: console at a terminal")] = "auto"


class SettingsError(Exception):
    """Raised by ``resolve`` for the first setting that cannot be taken; its text is the one line to print."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting's value, and who said so."""

    key: str
    value: Any
    """As it is spelt in the file."""
    source: str


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force, and the origin of each."""

    settings: Settings
    origins: tuple[Setting, ...]


_SERVICE_LINK: Final = re.compile(
    AGENT_ENVIRONMENT + r"(.+_)?(SERVICE_(HOST|PORT)(_.*)?=.*|PORT_\d+_.*|PORT=(tcp|udp|sctp)://.*)"
)
"""What Kubernetes puts into every pod's environment for Services such as railside-agent and railside-agent-x."""

_POOLS: Final = "pools"

_FIELDS: Final = {field.encode_name: field for field in msgspec.structs.fields(Settings)}


def variable(key: str) -> str:
    """Name of the environment variable of ``key``: RAILSIDE_AGENT_HOST_ROOT for hostRoot."""
    return AGENT_ENVIRONMENT + _FIELDS[key].name.upper()


def flag(key: str) -> str:
    """Name of the flag of ``key``: --host-root for hostRoot."""
    return "--" + _FIELDS[key].name.replace("_", "-")


def descriptions() -> dict[str, str]:
    """What each key means, in the order of the settings."""
    return {key: title(field.type) for key, field in _FIELDS.items()}


def value_words(key: str) -> tuple[str, str]:
    """What stands for the value of ``key`` in the help, and its default as a flag gives it."""
    field = _FIELDS[key]
    return kind(field.type), EXAMPLE if key == _POOLS else spelt(field.default)


def resolve(
    file: Mapping[str, Any],
    environment: Mapping[str, str],
    flags: Mapping[str, str],
    file_name: str = "the file",
) -> Resolved:
    """The settings that the three sources give together. Raises SettingsError.

    ``file`` and ``flags`` are keyed by setting, ``environment`` is the whole environment.
    """
    variables = {variable(key): key for key in _FIELDS}
    _refuse_unknown(file, _FIELDS, file_name)
    ours = {name: text for name, text in environment.items() if _is_ours(name, text)}
    _refuse_unknown(ours, variables, "the environment")
    said: dict[str, tuple[Any, str]] = {}
    for key, value in file.items():
        said[key] = (_converted(key, value, file_name), file_name)
    for name, text in ours.items():
        said[variables[name]] = (_from_text(variables[name], text, name), name)
    for key, text in flags.items():
        said[key] = (_from_text(key, text, flag(key)), flag(key))
    settings = Settings(**{_FIELDS[key].name: value for key, (value, _) in said.items()})
    problem = overlap(settings.pools)
    if problem is not None:
        raise SettingsError(problem)
    values: dict[str, Any] = msgspec.to_builtins(settings)
    sources = {key: source for key, (_, source) in said.items()}
    origins = (Setting(key=key, value=values[key], source=sources.get(key, "default")) for key in _FIELDS)
    return Resolved(settings=settings, origins=tuple(origins))


def refuse_unusable(settings: Settings) -> None:
    """Raises SettingsError for what can be printed but not run."""
    by_label = [pool.resource for pool in settings.pools if (pool.mode or settings.mode) == "label"]
    if by_label and not settings.node_name:
        raise SettingsError(
            f"nodeName is not set, so the label {MODE_LABEL} cannot be read;"
            f" set {variable('nodeName')} to the node's name (spec.nodeName of the pod), or set mode"
        )


def _is_ours(name: str, text: str) -> bool:
    return name.startswith(AGENT_ENVIRONMENT) and not _SERVICE_LINK.fullmatch(f"{name}={text}")


def _from_text(key: str, text: str, source: str) -> object:
    """The value of a variable or flag: lists of words are parted by commas, lists of more are JSON or YAML."""
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise SettingsError(f"{key} (from {source}) is no text in UTF-8: {text!a}")
    match _FIELDS[key].default:
        case tuple(words) if all(isinstance(word, str) for word in words):
            return _converted(key, [word.strip() for word in text.split(",") if word.strip()], source)
        case tuple():
            return _converted(key, _decoded(key, text, source), source)
        case _:
            return _converted(key, text, source)


def _decoded(key: str, text: str, source: str) -> object:
    try:
        return msgspec.yaml.decode(text)
    except msgspec.MsgspecError:
        raise SettingsError(f"{key} is {shown(text)} (from {source}); it must be {POOLS_ALLOWED}") from None


def _converted(key: str, value: object, source: str) -> object:
    field_type = _FIELDS[key].type
    try:
        return msgspec.convert(value, field_type, strict=False)
    except msgspec.ValidationError:
        found, wanted = (
            pools_problem(value)
            if key == _POOLS
            else (f"{key} is {shown(value)}", f"it must be {allowed(field_type)}")
        )
        raise SettingsError(f"{found} (from {source}); {wanted}") from None


def _refuse_unknown(said: Mapping[str, object], known: Collection[str], source: str) -> None:
    for name in said:
        if name not in known:
            raise SettingsError(f"{source} sets {shown(name)}, which is no setting; {nearest(name, known)}")
