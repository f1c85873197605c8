"""The agent's settings: their meaning, defaults and limits, and where each value came from.

A flag beats the environment, the environment beats the file, the file beats the default. It must not read
files or the environment itself.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, get_args

import msgspec
from msgspec import Meta

from railside_proto.names import AGENT_ENVIRONMENT, AGENT_HOST, AGENT_PORT, KUBELET_DIR
from railside_runtime.log_options import Format, Level

_Folder = Annotated[str, Meta(pattern=r"\A/[^\0\n]*\Z", description="an absolute path")]
_Prefix = Annotated[
    str, Meta(pattern=r"\A(/[^\0\n]*[^/\0\n])?\Z", description="an absolute path without a last /, or empty")
]
_Port = Annotated[int, Meta(ge=1, le=65535, description="a number from 1 to 65535")]
_Milliseconds = Annotated[int, Meta(ge=1, le=10000, description="a number of milliseconds from 1 to 10000")]
_Seconds = Annotated[float, Meta(ge=1, le=3600, description="a number of seconds from 1 to 3600")]


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
    listen_host: Annotated[str, Meta(title="address of /livez, /readyz and /status", min_length=1)] = AGENT_HOST
    listen_port: Annotated[_Port, Meta(title="port of /livez, /readyz and /status")] = AGENT_PORT
    resync_seconds: Annotated[_Seconds, Meta(title="how often the whole tree is looked at again")] = 30.0
    port_poll_seconds: Annotated[_Seconds, Meta(title="how often each port is asked for its state")] = 1.0
    debounce_milliseconds: Annotated[
        _Milliseconds, Meta(title="how long the kernel must be quiet before a change of devices is looked at")
    ] = 50
    log_level: Annotated[Level, Meta(title="the least important level that is logged")] = "info"
    log_format: Annotated[Format, Meta(title="json, console, or auto: console at a terminal")] = "auto"


class SettingsError(Exception):
    """Raised by ``resolve`` for the first setting that cannot be taken; its text is the one line to print."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting's value, and who said so."""

    key: str
    value: str | int | float
    source: str


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force, and the origin of each."""

    settings: Settings
    origins: tuple[Setting, ...]


_SERVICE_LINK: Final = re.compile(
    AGENT_ENVIRONMENT + r"(.+_)?(SERVICE_(HOST|PORT)(_.*)?=.*|PORT_\d+_.*|PORT=(tcp|udp|sctp)://.*)"
)
"""What Kubernetes puts into every pod's environment for Services such as railside-agent and railside-agent-x."""

_FIELDS: Final = {field.encode_name: field for field in msgspec.structs.fields(Settings)}


def variable(key: str) -> str:
    """Name of the environment variable of ``key``: RAILSIDE_AGENT_HOST_ROOT for hostRoot."""
    return AGENT_ENVIRONMENT + _FIELDS[key].name.upper()


def flag(key: str) -> str:
    """Name of the flag of ``key``: --host-root for hostRoot."""
    return "--" + _FIELDS[key].name.replace("_", "-")


def descriptions() -> dict[str, str]:
    """What each key means, in the order of the settings."""
    return {key: _title(field.type) for key, field in _FIELDS.items()}


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
    said: dict[str, Setting] = {}
    for key, value in file.items():
        said[key] = _setting(key, value, file_name)
    for name, text in ours.items():
        said[variables[name]] = _setting(variables[name], text, name)
    for key, text in flags.items():
        said[key] = _setting(key, text, flag(key))
    settings = msgspec.convert({key: setting.value for key, setting in said.items()}, Settings)
    defaults: dict[str, Any] = msgspec.to_builtins(settings)
    origins = (said.get(key) or Setting(key=key, value=defaults[key], source="default") for key in _FIELDS)
    return Resolved(settings=settings, origins=tuple(origins))


def _is_ours(name: str, text: str) -> bool:
    return name.startswith(AGENT_ENVIRONMENT) and not _SERVICE_LINK.fullmatch(f"{name}={text}")


def _setting(key: str, value: object, source: str) -> Setting:
    field_type = _FIELDS[key].type
    try:
        converted = msgspec.convert(value, field_type, strict=False)
    except msgspec.ValidationError:
        raise SettingsError(f"{key} is {value!r} (from {source}); it must be {_allowed(field_type)}") from None
    return Setting(key=key, value=converted, source=source)


def _refuse_unknown(said: Mapping[str, object], known: Mapping[str, object], source: str) -> None:
    for name in said:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            raise SettingsError(f"{source} sets {name!r}, which is no setting; {hint}")


def _metas(field_type: object) -> list[Meta]:
    """Limits of a setting's type, innermost first."""
    return [meta for meta in getattr(field_type, "__metadata__", ()) if isinstance(meta, Meta)]


def _title(field_type: object) -> str:
    return next((meta.title for meta in _metas(field_type) if meta.title), "")


def _allowed(field_type: object) -> str:
    described = next((meta.description for meta in _metas(field_type) if meta.description), None)
    if described:
        return described
    choices = get_args(get_args(field_type)[0])
    return "one of " + ", ".join(choices) if choices else "text that is not empty"
