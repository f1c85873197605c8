from typing import Any

import pytest

from railside_agent.pool_settings import EXAMPLE, POOLS_ALLOWED, SHARES_ALLOWED, PoolSettings
from railside_agent.settings import AGENT_SETTINGS, Settings, refuse_unusable
from railside_runtime.settings import Setting, SettingsError

descriptions, value_words, resolve = (
    AGENT_SETTINGS.descriptions,
    AGENT_SETTINGS.value_words,
    AGENT_SETTINGS.resolve,
)
flag, variable = AGENT_SETTINGS.flag, AGENT_SETTINGS.variable


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
            {"sharesPerHca": 1025},
            {},
            {},
            "sharesPerHca is 1025 (from agent.yaml); it must be a number from 1 to 1024: a longer list would not"
            " fit into a message to the kubelet",
            id="more-shares-than-a-message-holds",
        ),
        pytest.param(
            {},
            {},
            {"umad": "perhaps"},
            "umad is 'perhaps' (from --umad); it must be true or false",
            id="truth",
        ),
        pytest.param(
            {},
            {"RAILSIDE_AGENT_BINDING": "later"},
            {},
            "binding is 'later' (from RAILSIDE_AGENT_BINDING); it must be one of start, allocate",
            id="choice",
        ),
        pytest.param(
            {"gpuResources": "nvidia.com/gpu"},
            {},
            {},
            "gpuResources is 'nvidia.com/gpu' (from agent.yaml); it must be a list of resource names",
            id="no-list-in-the-file",
        ),
        pytest.param(
            {},
            {},
            {"pools": "[{"},
            f"pools is '[{{' (from --pools); it must be {POOLS_ALLOWED}",
            id="pools-that-are-no-yaml",
        ),
        pytest.param(
            {"pools": "infiniband"},
            {},
            {},
            f"pools is 'infiniband' (from agent.yaml); it must be {POOLS_ALLOWED}",
            id="pools-that-are-no-list",
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
            f"agent.yaml sets 'xyz', which is no setting; there are {', '.join(descriptions())}",
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
    ("pool", "sentence"),
    [
        pytest.param(
            {"linkLayer": "Ethernt"},
            "linkLayer of pool 2 is 'Ethernt' (from agent.yaml); it must be one of InfiniBand, Ethernet",
            id="link-layer",
        ),
        pytest.param(
            {"resource": "rdma"},
            "resource of pool 2 is 'rdma' (from agent.yaml); it must be DOMAIN/NAME such as example.com/rdma:"
            " DOMAIN in small letters, NAME of at most 63 letters",
            id="resource-without-a-domain",
        ),
        pytest.param(
            {"linklayer": "Ethernet"},
            "pool 2 sets 'linklayer', which is no key of a pool (from agent.yaml); did you mean linkLayer?",
            id="unknown",
        ),
        pytest.param(
            {"x": 3},
            "pool 2 sets 'x', which is no key of a pool (from agent.yaml); there are resource, linkLayer,"
            " functions, softwareDevices, mode, sharesPerHca",
            id="unknown-and-like-nothing",
        ),
        pytest.param(
            {"sharesPerHca": 0},
            f"sharesPerHca of pool 2 is 0 (from agent.yaml); it must be {SHARES_ALLOWED}",
            id="no-share",
        ),
        pytest.param(
            {"softwareDevices": "maybe"},
            "softwareDevices of pool 2 is 'maybe' (from agent.yaml); it must be true or false",
            id="truth",
        ),
        pytest.param(
            {"mode": "shared"},
            "mode of pool 2 is 'shared' (from agent.yaml); it must be one of label, ib-shared, ib-shared-multi",
            id="mode",
        ),
        pytest.param(
            "roce", f"pool 2 is 'roce' (from agent.yaml); it must have keys, as the one of {EXAMPLE}", id="a-word"
        ),
    ],
)
def test_what_is_wrong_with_a_pool_is_told(pool: object, sentence: str) -> None:
    """The line names the pool by its place in the list, the key, what it says and what is allowed (B-DP-61)."""
    with pytest.raises(SettingsError) as error:
        resolve({"pools": [{"resource": "example.com/first"}, pool]}, {}, {}, "agent.yaml")
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", f"pools is empty (from --pools); it must be {POOLS_ALLOWED}"),
        ("[]", f"pools is [] (from --pools); there must be at least one pool, such as {EXAMPLE}"),
        ("x", f"pools is 'x' (from --pools); it must be {POOLS_ALLOWED}"),
    ],
)
def test_what_is_no_list_of_pools_is_told_from_an_empty_one(text: str, found: str) -> None:
    """Who gives no pool is told to give one, and who gives something else is told what a list is."""
    with pytest.raises(SettingsError) as error:
        resolve({}, {}, {"pools": text})
    assert str(error.value) == found


_EVERY: dict[str, tuple[str, object]] = {
    "root": ("/machine", "/machine"),
    "hostRoot": ("/host", "/host"),
    "kubeletDir": ("/data/kubelet", "/data/kubelet"),
    "nodeName": ("node-1", "node-1"),
    "kubeconfig": ("/etc/kubeconfig", "/etc/kubeconfig"),
    "podUid": ("8b0f3b1e", "8b0f3b1e"),
    "publish": ("never", "never"),
    "kubeletCa": ("insecure", "insecure"),
    "mode": ("ib-shared-multi", "ib-shared-multi"),
    "sharesPerHca": ("1024", 1024),
    "pools": (
        "[{resource: example.com/a, linkLayer: Ethernet, sharesPerHca: 3}]",
        (PoolSettings(resource="example.com/a", link_layer="Ethernet", shares_per_hca=3),),
    ),
    "binding": ("allocate", "allocate"),
    "advertiseTopology": ("never", "never"),
    "gpuResources": (" example.com/gpu, example.com/mig-*,", ("example.com/gpu", "example.com/mig-*")),
    "conflictingResources": ("", ()),
    "virtualTopology": ("file", "file"),
    "umad": ("true", True),
    "ncclConfig": ("1", True),
    "reportHeldUnhealthy": ("true", True),
    "tombstoneSeconds": ("3600", 3600.0),
    "recoverySeconds": ("2.5", 2.5),
    "resyncSeconds": ("5", 5.0),
    "portPollSeconds": ("3", 3.0),
    "crossCheckSeconds": ("60", 60.0),
    "debounceMilliseconds": ("200", 200),
    "verbs": ("true", True),
    "recorderMegabytes": ("0", 0),
    "listenHost": ("::1", "::1"),
    "listenPort": ("65535", 65535),
    "logLevel": ("debug", "debug"),
    "logFormat": ("console", "console"),
}
"""Each setting as text, and what it is."""


@pytest.mark.parametrize("key", descriptions())
def test_every_setting_can_be_text(key: str) -> None:
    """Each setting can be given by a variable and by a flag, and means the same."""
    text, value = _EVERY[key]
    expected = Settings(**{_attribute(key): value})  # type: ignore[arg-type]
    assert expected != Settings()
    by_variable, by_flag = resolve({}, {variable(key): text}, {}), resolve({}, {}, {key: text})
    assert (expected, expected) == (by_variable.settings, by_flag.settings)
    changed = {one.key: one.source for one in by_variable.origins if one.source != "default"}
    assert changed == {key: variable(key)}


@pytest.mark.parametrize("key", descriptions())
def test_every_setting_can_stand_in_the_file(key: str) -> None:
    """What is told of a setting can be written into the file, and means the same."""
    text, _ = _EVERY[key]
    told = resolve({}, {}, {key: text})
    value = next(one.value for one in told.origins if one.key == key)
    assert told.settings == resolve({key: value}, {}, {}, "agent.yaml").settings


def _attribute(key: str) -> str:
    return variable(key).removeprefix("RAILSIDE_AGENT_").lower()


_IB = {"resource": "example.com/ib"}
_ROCE = {"resource": "example.com/roce", "linkLayer": "Ethernet"}


@pytest.mark.parametrize(
    "pools",
    [
        pytest.param([_IB, _ROCE], id="infiniband-and-ethernet"),
        pytest.param(
            [
                {**_IB, "functions": "physical"},
                {"resource": "example.com/vf", "functions": "virtual"},
            ],
            id="physical-and-virtual",
        ),
    ],
)
def test_pools_that_share_no_device(pools: list[dict[str, object]]) -> None:
    """Pools that differ in what stands behind them go together."""
    assert len(resolve({"pools": pools}, {}, {}).settings.pools) == len(pools)


@pytest.mark.parametrize(
    ("pools", "sentence"),
    [
        pytest.param(
            [_IB, {"resource": "example.com/other"}],
            "pools has example.com/ib and example.com/other for the same InfiniBand devices; they must differ in"
            " linkLayer, or one take physical and one virtual functions",
            id="the-same-devices",
        ),
        pytest.param(
            [{**_IB, "functions": "all"}, {"resource": "example.com/vf", "functions": "virtual"}],
            "for the same InfiniBand devices",
            id="all-and-virtual",
        ),
        pytest.param(
            [_IB, {**_ROCE, "resource": "example.org/ib"}],
            "pools has example.com/ib and example.org/ib; their last words must differ",
            id="the-same-last-word",
        ),
        pytest.param(
            [_ROCE, _IB, {"resource": "example.com/third", "linkLayer": "Ethernet"}],
            "pools has example.com/roce and example.com/third for the same Ethernet devices",
            id="the-third-of-three",
        ),
    ],
)
def test_pools_that_overlap_are_refused(pools: list[dict[str, object]], sentence: str) -> None:
    """A device stands behind one resource alone, and files are called by the resource's last word."""
    with pytest.raises(SettingsError) as error:
        resolve({"pools": pools}, {}, {})
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("settings", "usable"),
    [
        pytest.param(Settings(), False, id="label-and-no-node"),
        pytest.param(Settings(node_name="node-1"), True, id="label-and-node"),
        pytest.param(Settings(mode="ib-shared"), True, id="mode-by-setting"),
        pytest.param(
            Settings(mode="ib-shared", pools=(PoolSettings(mode="label"),)), False, id="one-pool-by-label"
        ),
        pytest.param(Settings(pools=(PoolSettings(mode="ib-shared"),)), True, id="each-pool-by-setting"),
        pytest.param(Settings(mode="ib-shared", publish="always"), False, id="a-record-and-no-node"),
        pytest.param(Settings(mode="ib-shared", publish="always", node_name="node-1"), True, id="a-record"),
    ],
)
def test_the_label_needs_the_nodes_name(settings: Settings, *, usable: bool) -> None:
    """An agent that is to read its node's label, or to publish its record, must know its node (B-DP-61)."""
    if usable:
        refuse_unusable(settings)
        return
    with pytest.raises(SettingsError, match="RAILSIDE_AGENT_NODE_NAME"):
        refuse_unusable(settings)


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


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("root", ("TEXT", "/")),
        ("mode", ("label|ib-shared|ib-shared-multi", "label")),
        ("umad", ("true|false", "false")),
        ("sharesPerHca", ("1-1024", "16")),
        ("crossCheckSeconds", ("30-86400", "300")),
        ("pools", ("LIST", EXAMPLE)),
        ("gpuResources", ("NAME,...", "nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-*, amd.com/gpu")),
    ],
)
def test_the_help_can_say_what_a_setting_takes(key: str, words: tuple[str, str]) -> None:
    """A setting's choices or limits stand where its value goes, and its default is spelt as a flag takes it."""
    assert value_words(key) == words


@pytest.mark.parametrize("key", descriptions())
def test_every_default_can_be_given_by_its_flag(key: str) -> None:
    """What the help says of a default means the same as to say nothing."""
    _, default = value_words(key)
    assert resolve({}, {}, {key: default}).settings == Settings()


@pytest.mark.parametrize(
    ("file", "environment", "said"),
    [
        pytest.param({}, {"RAILSIDE_AGENT_NODE_NAME": "\udcff"}, "is no text in UTF-8", id="bytes"),
        pytest.param(
            {"pools": [{"resource": f"x.org/{'a' * 64}"}]}, {}, "^resource of pool 1 is ", id="long-word"
        ),
    ],
)
def test_what_would_break_later_is_refused_now(
    file: dict[str, Any], environment: dict[str, str], said: str
) -> None:
    """Text that is none and a name too long for a socket's path are one sentence each."""
    with pytest.raises(SettingsError, match=said):
        resolve(file, environment, {}, "agent.yaml")


def _bomb() -> object:
    """What a page of YAML's aliases means: a billion letters."""
    value: object = "lol"
    for _ in range(30):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    ("setting", "called"), [("mode", "mode"), ("pools", "pool 1"), ("gpuResources", "gpuResources")]
)
def test_a_value_that_is_larger_than_memory_is_told_short(setting: str, called: str) -> None:
    """A file whose aliases multiply is refused at once, in one sentence."""
    with pytest.raises(SettingsError) as refused:
        resolve({setting: _bomb()}, {}, {}, "agent.yaml")
    assert str(refused.value).startswith(f"{called} is ")
    assert len(str(refused.value)) < 500
