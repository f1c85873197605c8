import io
from fractions import Fraction
from pathlib import Path

import pytest
from rich.console import Console
from tests.unit.cli.demo_values import MACHINE

from railside_cli.demo.page import Page
from railside_cli.demo.play import concluded, play
from railside_cli.demo.witness import Verdict
from railside_cli.exit_status import FINDING, FINE, USAGE

_LONGEST_STEP = 24
"""A screen."""
_A_LOADED_MACHINE_S = 240


def told(machine: Path) -> tuple[int, str]:
    paper = io.StringIO()
    return play(machine, Console(file=paper, width=80, highlight=False, emoji=False)), paper.getvalue()


@pytest.mark.timeout(_A_LOADED_MACHINE_S)
def test_the_whole_story_comes_to_a_good_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo is played through by the real agent, behind a proxy as well, and is set for a terminal."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    status, story = told(MACHINE)
    assert status == FINE, story
    assert max(map(len, story.splitlines())) <= 80
    steps = [step.splitlines() for step in story.split("\n\n1. ", 1)[1].split("─\n")]
    assert len(steps) == 15
    assert max(map(len, steps)) <= _LONGEST_STEP
    assert "5 of 5" in " ".join(story.split())


@pytest.mark.parametrize(("faulty", "broke"), [(("a pod lost something",), ""), ((), "the kubelet crashed")])
def test_a_story_that_ends_badly_is_a_finding(faulty: tuple[str, ...], broke: str) -> None:
    """What the witness saw, or what ended the story, is said, and the exit status is 1."""
    paper = io.StringIO()
    seen = Verdict(starts=1, pairs=0, nearest=0, moved=0, faults=faulty)
    assert concluded(Page(Console(file=paper, width=80)), [seen], Fraction(0), broke) == FINDING
    assert f"Not as it should be: {[*faulty, broke][0]}.\n" in paper.getvalue()


def test_a_machine_that_is_too_small_for_the_story() -> None:
    """A machine without enough pairs is bad usage, and the sentence says what is needed."""
    status, story = told(MACHINE.with_name("one-hca.machine"))
    assert (status, story.startswith("railside demo: the story needs 2 NUMA nodes of 4 GPUs")) == (USAGE, True)


def test_a_file_that_is_no_machine(tmp_path: Path) -> None:
    """A manifest that cannot be read or understood is bad usage."""
    (tmp_path / "odd").write_text("nonsense\n")
    assert [told(tmp_path / name)[0] for name in ("odd", "missing")] == [USAGE, USAGE]
