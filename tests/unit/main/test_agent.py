import signal
import socket
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.unit.main.processes import Process, events_until, last_line, started
from tests.unit.running import free_port

from railside_agent.settings import AGENT_SETTINGS
from railside_main.agent import main
from railside_proto.names import RECORDER_DIR

_SAID = {"root", "resyncSeconds", "logLevel"}


def test_config_prints_each_value_and_its_source(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One line a setting: what it is, and who said so."""
    file = tmp_path / "agent.yaml"
    file.write_text("resyncSeconds: 5\n")
    monkeypatch.setenv("RAILSIDE_AGENT_LOG_LEVEL", "debug")
    status = main(["config", "--config", str(file), "--root", "/host"])
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert status == 0
    told = {key: (value, source) for key, source, value in lines}
    assert list(AGENT_SETTINGS.descriptions()) == [line[0] for line in lines]
    assert told["root"] == ('"/host"', "--root")
    assert told["resyncSeconds"] == ("5.0", str(file))
    assert told["logLevel"] == ('"debug"', "RAILSIDE_AGENT_LOG_LEVEL")
    assert {source for key, (_, source) in told.items() if key not in _SAID} == {"default"}


def test_config_stays_readable_beside_a_long_value(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Values come last, so that a long one pushes nothing out of sight."""
    file = tmp_path / "agent.yaml"
    long = ", ".join(f"example.com/gpu-{number}" for number in range(99))
    file.write_text(f"gpuResources: [{long}]\n")
    main(["config", "--config", str(file)])
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines["gpuResources"].split(maxsplit=2)[1] == str(file)
    assert lines["mode"].endswith(' "label"')
    assert len(lines["mode"]) < len(str(file)) + 50 < len(lines["gpuResources"])


@pytest.mark.parametrize(
    ("content", "flags", "sentence"),
    [
        pytest.param("listenPort: 0", [], "listenPort is 0 (from {file}); it must be a number", id="value"),
        pytest.param("port: 1", [], "{file} sets 'port', which is no setting", id="unknown"),
        pytest.param("[1, 2]", [], "{file} is no YAML mapping of settings: ", id="no-mapping"),
        pytest.param("a: [", [], "{file} is no YAML mapping of settings: ", id="no-yaml"),
        pytest.param(None, [], "{file} cannot be read: No such file or directory", id="no-file"),
        pytest.param("", ["--root", "x"], "root is 'x' (from --root); it must be an absolute path", id="flag"),
    ],
)
@pytest.mark.parametrize("command", ["run", "config"])
def test_bad_settings_are_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: str,
    content: str | None,
    flags: list[str],
    sentence: str,
) -> None:
    """Whoever starts the program reads one line that says what to mend (B-DP-61)."""
    file = tmp_path / "agent.yaml"
    if content is not None:
        file.write_text(content)
    status = main([command, "--config", str(file), *flags])
    told = capsys.readouterr().err
    assert (status, told.count("\n")) == (2, 1)
    assert told.startswith("railside-agent: " + sentence.format(file=file))


@pytest.mark.parametrize(
    "arguments", [[], ["fly"], ["run", "--unknown"], ["run", "--umad"], ["run", "--shares", "3"]]
)
def test_a_bad_command_line_is_status_2(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """What does not exist, not even as the beginning of a flag, is bad usage, and the usage is one line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    usage, *rest = capsys.readouterr().err.splitlines()
    assert (ended.value.code, usage.startswith("usage: railside-agent"), len(rest)) == (2, True, 1)


def test_the_help_says_what_each_flag_takes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each flag stands there with its choices or limits, its variable and its default."""
    monkeypatch.setenv("COLUMNS", "400")
    with pytest.raises(SystemExit) as ended:
        main(["run", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert "--mode label|ib-shared|ib-shared-multi where the mode" in told
    assert "($RAILSIDE_AGENT_SHARES_PER_HCA; default: 16) --pools LIST" in told
    assert "a list in YAML or JSON ($RAILSIDE_AGENT_POOLS; default: [{resource: " in told
    assert "($RAILSIDE_AGENT_NODE_NAME; default: empty)" in told


@pytest.mark.parametrize("name", ["missing", "file", "file/below"])
def test_a_root_without_a_machine_is_refused_before_anything_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    """A folder without sys is no machine without HCAs: it is a bad setting, and is not made."""
    (tmp_path / "file").touch()
    root = tmp_path / name
    status = main(["run", "--root", str(root), "--mode", "ib-shared"])
    told = capsys.readouterr().err
    sentence = f"root is '{root}' (from --root), which holds no machine: there is no folder {root}/sys"
    assert (status, told) == (2, f"railside-agent: {sentence}\n")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_told_to_stop_it_ends_with_status_0(tmp_path: Path, number: signal.Signals) -> None:
    """SIGTERM, SIGINT and SIGHUP end it in order: the next start reads the settings anew (B-DP-66)."""
    with _started(tmp_path, free_port()) as agent:
        events = events_until(agent, "mode")
        agent.send_signal(number)
        last = last_line(agent)
    assert (agent.returncode, events[0], last["event"]) == (0, "starting", "stopped")


def test_a_taken_port_keeps_the_agent_from_nothing_but_its_probes(tmp_path: Path) -> None:
    """A port that another program has is told with what to set, and the node is served all the same."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with _started(tmp_path, port) as agent:
            events_until(agent, "no probe is answered", "mode")


def _started(root: Path, port: int) -> AbstractContextManager[Process]:
    """The program on a machine without anything."""
    (root / "sys").mkdir()
    flags = ["--root", str(root), "--kubelet-dir", str(root), "--listen-port", str(port), "--mode", "ib-shared"]
    return started("agent", "run", *flags)


def test_a_recording_is_printed_for_whoever_has_no_other_way(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    """What lies in the recorder's folder comes out whole, to be replayed at a desk."""
    folder = tmp_path / RECORDER_DIR
    folder.mkdir(parents=True)
    for number, line in enumerate((b'{"a": 1}\n', b'{"b": 2}\n')):
        (folder / f"flight-{number:08d}.jsonl").write_bytes(line)
    status = main(["recording", "--root", str(tmp_path)])
    sys.stdout.flush()
    assert (status, capfdbinary.readouterr().out.split()) == (0, [b'{"a":', b"1}", b'{"b":', b"2}"])


def test_nothing_recorded_is_a_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Without a recording that is told, and status 1."""
    assert main(["recording", "--root", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"railside-agent: nothing is recorded in {tmp_path / RECORDER_DIR}\n"
