"""What a program's settings come to: out of a file, the environment and flags, and where each value came from.

A flag beats the environment, the environment beats the file, the file beats the default. What cannot be taken is
one sentence. It must not read files or the environment itself, nor know any setting.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from railside_runtime.setting_words import allowed, kind, nearest, shown, spelt, title

S = TypeVar("S", bound=msgspec.Struct)

Problem = tuple[str, str]
"""What stands there, and what should: the two halves of a sentence."""


class SettingsError(Exception):
    """Raised for the first setting that cannot be taken; its text is the one line to print."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting's value, and who said so."""

    key: str
    value: Any
    """As it is spelt in the file."""
    source: str


class Resolved(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """The settings in force, and the origin of each."""

    settings: S
    origins: tuple[Setting, ...]


class ListForm(msgspec.Struct, frozen=True, kw_only=True):
    """How a setting is written whose value is a list of more than words: in text, as YAML or JSON."""

    example: str
    allowed: str
    """What it must be, in words."""
    problem: Callable[[object], Problem]
    """What is wrong first with a value that cannot be taken."""


def _no_conflict(_settings: object) -> str | None:
    return None


class KnownSettings(Generic[S]):
    """The settings of one program: the fields of ``declared``, spelt camelCase in the file.

    In the environment they are UPPER_CASE behind ``prefix``. ``lists`` are those with a form of their own, and
    ``conflict`` says why values that are fine alone do not go together.
    """

    def __init__(
        self,
        declared: type[S],
        prefix: str,
        *,
        lists: Mapping[str, ListForm] | None = None,
        conflict: Callable[[S], str | None] = _no_conflict,
    ) -> None:
        """Nothing is read."""
        self._declared = declared
        self.prefix = prefix
        self._lists = lists or {}
        self._conflict = conflict
        self._fields = {field.encode_name: field for field in msgspec.structs.fields(declared)}
        self._service_link = _service_link(prefix)

    def variable(self, key: str) -> str:
        """Name of the environment variable of ``key``: RAILSIDE_AGENT_HOST_ROOT for hostRoot."""
        return self.prefix + self._fields[key].name.upper()

    def flag(self, key: str) -> str:
        """Name of the flag of ``key``: --host-root for hostRoot."""
        return "--" + self._fields[key].name.replace("_", "-")

    def descriptions(self) -> dict[str, str]:
        """What each key means, in the order of the settings."""
        return {key: title(field.type) for key, field in self._fields.items()}

    def value_words(self, key: str) -> tuple[str, str]:
        """What stands for the value of ``key`` in the help, and its default as a flag gives it."""
        field = self._fields[key]
        return kind(field.type), self._lists[key].example if key in self._lists else spelt(field.default)

    def resolve(
        self,
        file: Mapping[str, Any],
        environment: Mapping[str, str],
        flags: Mapping[str, str],
        file_name: str = "the file",
    ) -> Resolved[S]:
        """The settings that the three sources give together. Raises SettingsError.

        ``file`` and ``flags`` are keyed by setting, ``environment`` is the whole environment.
        """
        variables = {self.variable(key): key for key in self._fields}
        _refuse_unknown(file, self._fields, file_name)
        ours = {name: text for name, text in environment.items() if self._is_ours(name, text)}
        _refuse_unknown(ours, variables, "the environment")
        said: dict[str, tuple[Any, str]] = {}
        for key, value in file.items():
            said[key] = (self._converted(key, value, file_name), file_name)
        for name, text in ours.items():
            said[variables[name]] = (self._from_text(variables[name], text, name), name)
        for key, text in flags.items():
            said[key] = (self._from_text(key, text, self.flag(key)), self.flag(key))
        return self._resolved(said)

    def _resolved(self, said: Mapping[str, tuple[Any, str]]) -> Resolved[S]:
        settings = self._declared(**{self._fields[key].name: value for key, (value, _) in said.items()})
        problem = self._conflict(settings)
        if problem is not None:
            raise SettingsError(problem)
        values: dict[str, Any] = msgspec.to_builtins(settings)
        sources = {key: source for key, (_, source) in said.items()}
        origins = (Setting(key=key, value=values[key], source=sources.get(key, "default")) for key in self._fields)
        return Resolved(settings=settings, origins=tuple(origins))

    def _is_ours(self, name: str, text: str) -> bool:
        return name.startswith(self.prefix) and not self._service_link.fullmatch(f"{name}={text}")

    def _from_text(self, key: str, text: str, source: str) -> object:
        """The value of a variable or flag: lists of words are parted by commas."""
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise SettingsError(f"{key} (from {source}) is no text in UTF-8: {text!a}")
        if key in self._lists:
            return self._converted(key, _decoded(key, text, source, self._lists[key]), source)
        if isinstance(self._fields[key].default, tuple):
            return self._converted(key, [word.strip() for word in text.split(",") if word.strip()], source)
        return self._converted(key, text, source)

    def _converted(self, key: str, value: object, source: str) -> object:
        try:
            return msgspec.convert(value, self._fields[key].type, strict=False)
        except msgspec.ValidationError:
            found, wanted = self._problem(key, value)
            raise SettingsError(f"{found} (from {source}); {wanted}") from None

    def _problem(self, key: str, value: object) -> Problem:
        if key in self._lists:
            return self._lists[key].problem(value)
        return f"{key} is {shown(value)}", f"it must be {allowed(self._fields[key].type)}"


def _service_link(prefix: str) -> re.Pattern[str]:
    """What Kubernetes puts into every pod's environment for Services called as the program, and more behind it."""
    return re.compile(prefix + r"(.+_)?(SERVICE_(HOST|PORT)(_.*)?=.*|PORT_\d+_.*|PORT=(tcp|udp|sctp)://.*)")


def _decoded(key: str, text: str, source: str, form: ListForm) -> object:
    try:
        return msgspec.yaml.decode(text)
    except msgspec.MsgspecError:
        raise SettingsError(f"{key} is {shown(text)} (from {source}); it must be {form.allowed}") from None


def _refuse_unknown(said: Mapping[str, object], known: Collection[str], source: str) -> None:
    for name in said:
        if name not in known:
            raise SettingsError(f"{source} sets {shown(name)}, which is no setting; {nearest(name, known)}")
