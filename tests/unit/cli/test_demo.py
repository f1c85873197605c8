import io
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from rich.console import Console
from tests.unit.cli.demo_values import MACHINE

from railside_cli.demo.page import Page
from railside_cli.demo.play import concluded, play
from railside_cli.demo.witness import Verdict
from railside_cli.exit_status import FINDING, FINE, USAGE
from railside_cli.flight import show

_LONGEST_STEP = 24
"""A screen."""
_A_LOADED_MACHINE_S = 240
_SECONDS = 20.0
_PROGRAM = [sys.executable, "-c", "from railside_cli.app import main; raise SystemExit(main())"]


def told(machine: Path, keep: Path | None = None) -> tuple[int, str]:
    paper = io.StringIO()
    return play(machine, Console(file=paper, width=80, highlight=False, emoji=False), keep), paper.getvalue()


@pytest.mark.timeout(_A_LOADED_MACHINE_S)
def test_the_whole_story_comes_to_a_good_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The demo is played through by the real agent, behind a proxy as well, is set for a terminal, and is kept."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    status, story = told(MACHINE, tmp_path / "kept")
    assert status == FINE, story
    assert max(map(len, story.splitlines())) <= 80
    steps = [step.splitlines() for step in story.split("\n\n1. ", 1)[1].split("─\n")]
    assert len(steps) == 15
    assert max(map(len, steps)) <= _LONGEST_STEP
    words = " ".join(story.split())
    assert "5 of 5" in words
    assert f"railside replay {tmp_path / 'kept'} decides it again" in words
    out = io.StringIO()
    assert show(tmp_path / "kept", Console(file=out, width=200), as_json=False) == FINE
    # Both nodes' agents are in it.
    assert out.getvalue().count("  agent ") == 2


@pytest.mark.parametrize(("faulty", "broke"), [(("a pod lost something",), ""), ((), "the kubelet crashed")])
def test_a_story_that_ends_badly_is_a_finding(faulty: tuple[str, ...], broke: str) -> None:
    """What the witness saw, or what ended the story, is said, and the exit status is 1."""
    paper = io.StringIO()
    seen = Verdict(starts=1, pairs=0, nearest=0, moved=0, faults=faulty)
    assert concluded(Page(Console(file=paper, width=80)), [seen], Fraction(0), broke) == FINDING
    assert f"Not as it should be: {[*faulty, broke][0]}.\n" in paper.getvalue()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("one-hca", "0 on NUMA node 0"),
        ("hcas-12", "0 on NUMA node 0, 0 on NUMA node 1"),
        ("four-numa-nodes", "1 on NUMA node 0, 1 on NUMA node 1, 1 on NUMA node 2, 1 on NUMA node 3"),
        ("numa-unknown-all", "2 on no known NUMA node"),
    ],
)
def test_a_machine_that_is_too_small_for_the_story(
    capsys: pytest.CaptureFixture[str], name: str, found: str
) -> None:
    """A machine without enough pairs is bad usage, and the sentence counts the pairs that it has and needs."""
    assert told(MACHINE.with_name(f"{name}.machine")) == (USAGE, "")
    assert capsys.readouterr().err == (
        "railside: the story needs 2 NUMA nodes, and on each 4 GPUs that have a sound HCA of their own on their"
        f" switch; this machine has {found}\n"
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("odd", "odd:1: the first word is 'nonsense'; allowed are "),
        ("missing", "there is no file {path}\n"),
        (".", "{path} is a folder; a machine is a file of text, "),
        ("bytes", "{path} is no text; a machine is a file of text, "),
        ("odd/below", "{path} cannot be read: Not a directory\n"),
    ],
)
def test_a_file_that_is_no_machine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, sentence: str
) -> None:
    """A manifest that cannot be read or understood is bad usage, and one sentence says why."""
    (tmp_path / "odd").write_text("nonsense\n")
    (tmp_path / "bytes").write_bytes(b"\x7fELF\xff")
    assert told(tmp_path / name) == (USAGE, "")
    said = capsys.readouterr().err
    assert said.startswith("railside: " + sentence.format(path=tmp_path / name))
    assert said.count("\n") == 1


def test_a_folder_that_holds_something_is_not_written_to(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Nothing is played where its recording would come among other files, or cannot be kept at all."""
    (tmp_path / "theirs").touch()
    assert [told(MACHINE, keep)[0] for keep in (tmp_path, tmp_path / "theirs")] == [USAGE, USAGE]
    assert capsys.readouterr().err.splitlines() == [
        f"railside: nothing is kept in {tmp_path}, as it is not empty",
        f"railside: nothing can be kept in {tmp_path / 'theirs'}: File exists",
    ]


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for temporary files whose sockets' paths are short enough for the kernel."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        yield Path(folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_demo_that_is_ended_leaves_nothing_behind(temporary: Path, number: signal.Signals) -> None:
    """Its folder is taken away, whatever signal ends it, and the exit status tells which one it was."""
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
    arguments = [*_PROGRAM, "demo", str(MACHINE)]
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True) as demo:  # noqa: S603 -- ours
        assert demo.stdout is not None
        while not next(demo.stdout).startswith("2. "):
            assert demo.poll() is None
        assert len(list(temporary.iterdir())) == 1
        demo.send_signal(number)
        demo.communicate(timeout=_SECONDS)
    assert (demo.returncode, list(temporary.iterdir())) == (128 + number, [])
