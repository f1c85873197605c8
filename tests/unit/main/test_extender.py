"""The extender's program: what an operator types, and what comes of it."""

import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.unit.main.processes import events_until, last_line, started
from tests.unit.running import free_port

from railside_extender.settings import EXTENDER_SETTINGS
from railside_main.extender import main


def test_config_prints_each_value_and_its_source(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One line a setting: what it is, and who said so."""
    file = tmp_path / "extender.yaml"
    file.write_text("mostNodes: 0\n")
    monkeypatch.setenv("RAILSIDE_EXTENDER_LOG_LEVEL", "debug")
    status = main(["config", "--config", str(file), "--probe-host", "::"])
    told = [tuple(line.split(maxsplit=2)) for line in capsys.readouterr().out.splitlines()]
    assert (status, [line[0] for line in told]) == (0, list(EXTENDER_SETTINGS.descriptions()))
    assert {("mostNodes", str(file), "0"), ("logLevel", "RAILSIDE_EXTENDER_LOG_LEVEL", '"debug"')} <= set(told)
    assert ("probeHost", "--probe-host", '"::"') in told


@pytest.mark.parametrize("command", ["run", "config"])
def test_bad_settings_are_one_line_and_status_2(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Whoever starts the program reads one line that says what to mend (B-DP-61)."""
    assert main([command, "--most-nodes", "-1"]) == 2
    assert capsys.readouterr().err == (
        "railside-extender: mostNodes is '-1' (from --most-nodes); it must be a number from 0 to 5000\n"
    )


@pytest.mark.parametrize("arguments", [[], ["recording"], ["run", "--pools", "[]"]])
def test_what_only_the_agent_knows_is_bad_usage(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """A command or a flag of the other program is none of this one, and the usage is one line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    usage, *rest = capsys.readouterr().err.splitlines()
    assert (ended.value.code, usage.startswith("usage: railside-extender"), len(rest)) == (2, True, 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_without_an_api_server_it_waits_until_it_is_told_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    """It is alive and not ready, says what it has not read, and ends in order (B-DP-66)."""
    probes = free_port()
    with started("extender", "run", *_flags(tmp_path, free_port(), probes)) as extender:
        events = events_until(extender, *["the API server's objects may be old"])
        assert _answer(probes, "/livez") == (200, "ok\n")
        assert _answer(probes, "/readyz") == (503, "nodes, records, pods of the cluster were not read yet\n")
        extender.send_signal(number)
        last = last_line(extender)
    assert (extender.returncode, events[0], last["event"]) == (0, "starting", "stopped")


def test_a_taken_port_is_one_sentence_and_status_1(tmp_path: Path) -> None:
    """An extender that no scheduler can ask ends, and says what to set; a trace would only hide that."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with started("extender", "run", *_flags(tmp_path, port, free_port())) as extender:
            last = last_line(extender)
    assert (extender.returncode, last["event"], last["why"]) == (
        1,
        "stopping",
        f"cannot listen on 127.0.0.1:{port} (Address already in use); set another listenHost or listenPort",
    )


def _flags(folder: Path, port: int, probes: int) -> list[str]:
    """A cluster that is not there."""
    kubeconfig = str(folder / "none.kubeconfig")
    return ["--kubeconfig", kubeconfig, "--listen-port", str(port), "--probe-port", str(probes)]


def _answer(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
