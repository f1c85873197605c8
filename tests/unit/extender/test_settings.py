"""The extender's settings."""

from typing import Any

import pytest

from railside_extender.settings import EXTENDER_SETTINGS, Settings
from railside_runtime.settings import SettingsError

_EVERY: dict[str, tuple[str, object]] = {
    "resource": ("example.com/rdma", "example.com/rdma"),
    "kubeconfig": ("/etc/kubeconfig", "/etc/kubeconfig"),
    "listenHost": ("10.0.0.1", "10.0.0.1"),
    "listenPort": ("65535", 65535),
    "probeHost": ("::1", "::1"),
    "probePort": ("80", 80),
    "bind": ("true", True),
    "mostNodes": ("0", 0),
    "holdSeconds": ("90.5", 90.5),
    "defaultLocality": ("required-numa", "required-numa"),
    "conflictingResources": (" example.com/a, example.com/b", ("example.com/a", "example.com/b")),
    "logLevel": ("debug", "debug"),
    "logFormat": ("console", "console"),
}
"""Each setting as text, and what it is."""


def test_defaults() -> None:
    """Without any source every setting has its default, which its help tells as a flag takes it."""
    assert EXTENDER_SETTINGS.resolve({}, {}, {}).settings == Settings()
    defaults = {key: EXTENDER_SETTINGS.value_words(key)[1] for key in EXTENDER_SETTINGS.descriptions()}
    assert EXTENDER_SETTINGS.resolve({}, {}, defaults).settings == Settings()
    assert "" not in EXTENDER_SETTINGS.descriptions().values()


@pytest.mark.parametrize("key", EXTENDER_SETTINGS.descriptions())
def test_every_setting_can_be_given(key: str) -> None:
    """Each setting can be given by a variable, by a flag and in the file, and means the same."""
    text, value = _EVERY[key]
    variable = EXTENDER_SETTINGS.variable(key)
    expected = Settings(**{variable.removeprefix("RAILSIDE_EXTENDER_").lower(): value})  # type: ignore[arg-type]
    assert expected != Settings()
    resolve = EXTENDER_SETTINGS.resolve
    found = [resolve({}, {variable: text}, {}), resolve({}, {}, {key: text})]
    (told,) = (one.value for one in found[0].origins if one.key == key)
    found.append(resolve({key: told}, {}, {}))
    assert [one.settings for one in found] == [expected] * 3


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ({"listenPort": 9473}, "listenPort and probePort are both 9473; they must differ"),
        (
            {"resource": "rdma"},
            "resource is 'rdma' (from the file); it must be DOMAIN/NAME such as example.com/rdma",
        ),
        (
            {"defaultLocality": "near"},
            "defaultLocality is 'near' (from the file); it must be one of required-pcie, required-numa, ",
        ),
        ({"holdSeconds": 1}, "holdSeconds is 1 (from the file); it must be a number of seconds from 60 to 86400"),
        ({"probeHost": ""}, "probeHost is '' (from the file); it must be text that is not empty"),
        ({"sharesPerHca": 2}, "the file sets 'sharesPerHca', which is no setting"),
    ],
)
def test_what_cannot_be_taken_is_one_sentence(file: dict[str, Any], sentence: str) -> None:
    """The line names setting, value, source and what is allowed (B-DP-61)."""
    with pytest.raises(SettingsError) as error:
        EXTENDER_SETTINGS.resolve(file, {}, {})
    assert str(error.value).startswith(sentence)


def test_the_agents_variables_are_none_of_ours() -> None:
    """Both programs may stand in one pod's environment; each takes its own variables alone."""
    environment = {"RAILSIDE_AGENT_LOG_LEVEL": "debug", "RAILSIDE_EXTENDER_PORT": "tcp://10.96.7.1:9472"}
    assert EXTENDER_SETTINGS.resolve({}, environment, {}).settings == Settings()
