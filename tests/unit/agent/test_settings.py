from typing import Any

import pytest

from railside_agent.settings import Setting, Settings, SettingsError, descriptions, flag, resolve, variable


def _origin(key: str, file: dict[str, Any], environment: dict[str, str], flags: dict[str, str]) -> Setting:
    return next(one for one in resolve(file, environment, flags, "agent.yaml").origins if one.key == key)


def test_defaults() -> None:
    """Without any source every setting has its default, and says so."""
    resolved = resolve({}, {"PATH": "/bin"}, {})
    assert Settings() == resolved.settings
    assert {"default"} == {one.source for one in resolved.origins}


@pytest.mark.parametrize(
    ("file", "environment", "flags", "expected"),
    [
        pytest.param({}, {}, {}, ("/", "default"), id="default"),
        pytest.param({"root": "/file"}, {}, {}, ("/file", "agent.yaml"), id="file-beats-default"),
        pytest.param(
            {"root": "/file"},
            {"RAILSIDE_AGENT_ROOT": "/env"},
            {},
            ("/env", "RAILSIDE_AGENT_ROOT"),
            id="environment-beats-file",
        ),
        pytest.param(
            {"root": "/file"},
            {"RAILSIDE_AGENT_ROOT": "/env"},
            {"root": "/flag"},
            ("/flag", "--root"),
            id="flag-beats-environment",
        ),
    ],
)
def test_each_source_beats_the_next(
    file: dict[str, Any], environment: dict[str, str], flags: dict[str, str], expected: tuple[str, str]
) -> None:
    """A flag beats the environment, the environment the file, the file the default; the winner is told."""
    origin = _origin("root", file, environment, flags)
    assert expected == (origin.value, origin.source)


def test_text_becomes_numbers() -> None:
    """Numbers of the environment and of flags are text there and numbers here."""
    settings = resolve({}, {"RAILSIDE_AGENT_LISTEN_PORT": "80"}, {"resyncSeconds": "2.5"}).settings
    assert (settings.listen_port, settings.resync_seconds) == (80, 2.5)


@pytest.mark.parametrize(
    ("file", "environment", "flags", "sentence"),
    [
        pytest.param(
            {"listenPort": 0},
            {},
            {},
            "listenPort is 0 (from agent.yaml); it must be a number from 1 to 65535",
            id="port-of-the-file",
        ),
        pytest.param(
            {},
            {"RAILSIDE_AGENT_LISTEN_PORT": "http"},
            {},
            "listenPort is 'http' (from RAILSIDE_AGENT_LISTEN_PORT); it must be a number from 1 to 65535",
            id="port-of-the-environment",
        ),
        pytest.param(
            {},
            {},
            {"resyncSeconds": "nan"},
            "resyncSeconds is 'nan' (from --resync-seconds); it must be a number of seconds from 1 to 3600",
            id="seconds-not-a-number",
        ),
        pytest.param(
            {"root": "machine"},
            {},
            {},
            "root is 'machine' (from agent.yaml); it must be an absolute path",
            id="root",
        ),
        pytest.param(
            {},
            {},
            {"hostRoot": "/host/"},
            "hostRoot is '/host/' (from --host-root); it must be an absolute path without a last /, or empty",
            id="host-root",
        ),
        pytest.param(
            {"listenHost": ""},
            {},
            {},
            "listenHost is '' (from agent.yaml); it must be text that is not empty",
            id="host",
        ),
        pytest.param(
            {},
            {"RAILSIDE_AGENT_LOG_LEVEL": "loud"},
            {},
            "logLevel is 'loud' (from RAILSIDE_AGENT_LOG_LEVEL); it must be one of debug, info, warning, error",
            id="level",
        ),
        pytest.param(
            {"kubeletDir": None},
            {},
            {},
            "kubeletDir is None (from agent.yaml); it must be an absolute path",
            id="empty-in-the-file",
        ),
        pytest.param(
            {"resynchSeconds": 5},
            {},
            {},
            "agent.yaml sets 'resynchSeconds', which is no setting; did you mean resyncSeconds?",
            id="unknown-in-the-file",
        ),
        pytest.param(
            {},
            {"RAILSIDE_AGENT_RESYNC": "5"},
            {},
            "the environment sets 'RAILSIDE_AGENT_RESYNC', which is no setting; did you mean"
            " RAILSIDE_AGENT_RESYNC_SECONDS?",
            id="unknown-in-the-environment",
        ),
        pytest.param(
            {"xyz": 5},
            {},
            {},
            "agent.yaml sets 'xyz', which is no setting; there are root, hostRoot, kubeletDir, listenHost,"
            " listenPort, resyncSeconds, portPollSeconds, debounceMilliseconds, logLevel, logFormat",
            id="unknown-and-like-nothing",
        ),
    ],
)
def test_what_cannot_be_taken_is_one_sentence(
    file: dict[str, Any], environment: dict[str, str], flags: dict[str, str], sentence: str
) -> None:
    """The line names setting, value, source and what is allowed (B-DP-61)."""
    with pytest.raises(SettingsError) as error:
        resolve(file, environment, flags, "agent.yaml")
    assert sentence == str(error.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RAILSIDE_AGENT_PORT", "tcp://10.96.7.1:9471"),
        ("RAILSIDE_AGENT_SERVICE_HOST", "10.96.7.1"),
        ("RAILSIDE_AGENT_SERVICE_PORT", "9471"),
        ("RAILSIDE_AGENT_SERVICE_PORT_METRICS", "9471"),
        ("RAILSIDE_AGENT_PORT_9471_TCP", "tcp://10.96.7.1:9471"),
        ("RAILSIDE_AGENT_PORT_9471_TCP_ADDR", "10.96.7.1"),
        ("RAILSIDE_AGENT_METRICS_SERVICE_HOST", "10.96.7.2"),
        ("RAILSIDE_AGENT_METRICS_PORT", "tcp://10.96.7.2:9471"),
        ("RAILSIDE_AGENT_METRICS_PORT_9471_TCP_PROTO", "tcp"),
        ("RAILSIDE_EXTENDER_SERVICE_HOST", "10.96.7.3"),
    ],
)
def test_what_kubernetes_says_of_services_is_no_setting(name: str, value: str) -> None:
    """Variables of a Service called railside-agent, or railside-agent-metrics, are not ours."""
    assert Settings() == resolve({}, {name: value}, {}).settings


def test_every_setting_has_a_description_a_flag_and_a_variable() -> None:
    """Each setting can be found in help, and is spelt by one rule everywhere."""
    assert "" not in descriptions().values()
    assert (flag("hostRoot"), variable("hostRoot")) == ("--host-root", "RAILSIDE_AGENT_HOST_ROOT")
