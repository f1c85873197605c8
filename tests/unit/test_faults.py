import ast
import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest
from tests.conftest import REPOSITORY
from tests.faults.__main__ import main
from tests.faults.broken_import import BrokenImport
from tests.faults.fault import Fault, broken, misfits, read_faults
from tests.faults.verdict import Outcome, Seen, complaints, complaints_without_fault, summary

from railside_agent.holders import HeldId

_FAULTS = read_faults()
_RIGHT = "tests/unit/test_x.py::test_right"


def _fault(file: str = "agent/railside_agent/hints.py", **facts: str) -> Fault:
    told = {"name": "one", "before": "return any(recorded)", "after": "return wanted", "harm": "Much.", **facts}
    return Fault(file=file, tests=(_RIGHT,), **told)


def _tests_of(file: Path) -> set[str]:
    """Names of the tests that stand in a file."""
    parsed = ast.parse(file.read_text(encoding="utf-8"))
    return {one.name for one in ast.walk(parsed) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


# The table


def test_faults_have_names_of_their_own() -> None:
    """A name picks one fault."""
    names = [one.name for one in _FAULTS]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)


@pytest.mark.parametrize("fault", _FAULTS, ids=lambda fault: fault.name)
def test_every_fault_fits_the_code(fault: Fault) -> None:
    """A fault's line stands in its file once, and its file is Python with it."""
    assert list(misfits(fault)) == []
    assert fault.before != fault.after


@pytest.mark.parametrize("fault", _FAULTS, ids=lambda fault: fault.name)
def test_every_fault_names_tests_that_there_are_and_its_harm(fault: Fault) -> None:
    """Each fault has tests in this suite, and a sentence of what it would do."""
    named = [test.partition("[")[0].split("::") for test in fault.tests]
    assert named
    assert [test for file, test in named if test not in _tests_of(REPOSITORY / file)] == []
    assert re.fullmatch(r"\S.*\.", fault.harm)


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        pytest.param(_fault(), None, id="fits"),
        pytest.param(_fault(before="return any("), "stands 0 times", id="a-part-of-a-line"),
        pytest.param(_fault(file="agent/railside_agent/gone.py"), "there is no file", id="no-file"),
        pytest.param(
            _fault(file="tests/faults/verdict.py", before="if seen is None:"), "stands 2 times", id="twice"
        ),
        pytest.param(_fault(after="return any("), "no Python", id="no-python"),
    ],
)
def test_what_does_not_fit_is_said(fault: Fault, why: str | None) -> None:
    """A fault whose line was moved, reworded or doubled is told by its name."""
    told = list(misfits(fault))
    assert len(told) == (why is not None)
    assert all(one.startswith("one: ") and (why or "") in one for one in told)


@pytest.mark.parametrize(
    ("after", "expected"),
    [("return 2", "def f():\n    return 2\nx = 1\n"), ("", "def f():\n\nx = 1\n")],
)
def test_a_line_is_exchanged_where_it_stands(after: str, expected: str) -> None:
    """What takes the line's place has its indentation, and no other line moves."""
    fault = _fault(before="return 1", after=after)
    assert expected == broken(fault, "def f():\n    return 1\nx = 1\n")


# Breaking


@pytest.fixture
def unimported() -> Iterator[str]:
    """The name of a module of ours that is as if it had never been imported, until the test is over."""
    name = "railside_agent.hints"
    sound, meta_path = importlib.import_module(name), sys.meta_path[:]
    del sys.modules[name]
    yield name
    sys.meta_path[:] = meta_path
    sys.modules[name] = sound
    sys.modules["railside_agent"].__dict__["hints"] = sound


def test_an_import_gives_the_broken_module(unimported: str) -> None:
    """Whoever imports the module gets the wrong line, though its file and its cache have the right one."""
    hook = BrokenImport(_fault())
    hook.install()
    module = importlib.import_module(unimported)
    held = [HeldId(id="n0-s0", numa_nodes=(0,))]
    assert (module.is_hinted([], held, before=None, wanted=False), hook.used) == (False, True)


def test_another_module_is_left_alone(unimported: str) -> None:
    """A fault concerns its own module, and knows whether that was wanted."""
    hook = BrokenImport(_fault(file="agent/railside_agent/gone.py"))
    hook.install()
    module = importlib.import_module(unimported)
    held = [HeldId(id="n0-s0", numa_nodes=(0,))]
    assert (module.is_hinted([], held, before=None, wanted=False), hook.used) == (True, False)


def test_a_module_that_is_imported_already_cannot_be_broken() -> None:
    """A fault that came too late would prove nothing."""
    with pytest.raises(RuntimeError, match="imported already"):
        BrokenImport(_fault(file="agent/railside_agent/holders.py")).install()


# The verdict

_RED = Outcome(result="failed", message="assert 1 == 2")
_GREEN = Outcome(result="passed")
_LEFT_OUT = Outcome(result="skipped")
_SLIP = Outcome(result="failed", message="NameError: name 'wnated' is not defined")


@pytest.mark.parametrize(
    ("outcomes", "why"),
    [
        pytest.param({_RIGHT: _RED}, None, id="seen"),
        pytest.param({f"{_RIGHT}[a]": _GREEN, f"{_RIGHT}[b]": _RED}, None, id="seen-with-one-of-its-parameters"),
        pytest.param({_RIGHT: _GREEN}, "does not see it", id="not-seen"),
        pytest.param({f"{_RIGHT}_too": _RED}, "did not run", id="another-test"),
        pytest.param({}, "did not run", id="no-test"),
        pytest.param({_RIGHT: _LEFT_OUT}, "was left out", id="left-out"),
        pytest.param({_RIGHT: _SLIP}, "mistake in the table", id="a-slip-of-the-pen"),
        pytest.param({f"{_RIGHT}[a]": _SLIP, f"{_RIGHT}[b]": _RED}, None, id="not-by-a-slip-alone"),
    ],
)
def test_who_sees_a_fault(outcomes: Mapping[str, Outcome], why: str | None) -> None:
    """A test sees a fault when it fails for what it states, and neither by being left out nor by a slip."""
    told = list(complaints(_fault(), Seen(outcomes=outcomes)))
    assert len(told) == (why is not None)
    assert all(_RIGHT in one and (why or "") in one for one in told)


def test_each_test_must_see_its_fault() -> None:
    """A fault of two tests is not seen by one of them alone."""
    fault = msgspec.structs.replace(_fault(), tests=(_RIGHT, "tests/unit/test_x.py::test_wrong"))
    seen = Seen(outcomes={_RIGHT: _RED, "tests/unit/test_x.py::test_wrong": _GREEN})
    assert list(complaints(fault, seen)) == ["one: tests/unit/test_x.py::test_wrong does not see it"]


@pytest.mark.parametrize(
    ("seen", "why"),
    [(None, "did not end"), (Seen(outcomes={_RIGHT: _RED}, imported=False), "do not import")],
)
def test_a_run_that_proves_nothing_is_a_complaint(seen: Seen | None, why: str) -> None:
    """A process that died, or that never met the fault, has not seen it, whatever was red."""
    (told,) = complaints(_fault(), seen)
    assert why in told


@pytest.mark.parametrize(
    ("seen", "count"),
    [
        pytest.param(Seen(outcomes={_RIGHT: _GREEN}), 0, id="green"),
        pytest.param(Seen(outcomes={f"{_RIGHT}[a]": _GREEN, f"{_RIGHT}[b]": _RED}), 1, id="partly-red"),
        pytest.param(Seen(outcomes={_RIGHT: _LEFT_OUT}), 1, id="left-out"),
        pytest.param(Seen(), 1, id="did-not-run"),
        pytest.param(None, 1, id="died"),
    ],
)
def test_witnesses_are_green_where_nothing_is_wrong(seen: Seen | None, count: int) -> None:
    """A test that is red anyway proves nothing about a fault."""
    assert count == len(list(complaints_without_fault((_RIGHT,), seen)))


# The command line


@pytest.mark.parametrize(
    ("counts", "words"), [((1, 1), "1 fault, 1 complaint, 3 s"), ((2, 0), "2 faults, 0 complaints, 3 s")]
)
def test_the_last_line_counts_in_good_english(counts: tuple[int, int], words: str) -> None:
    """One fault is no faults."""
    assert summary(*counts, 3.2) == words


@pytest.mark.parametrize(("arguments", "status"), [(["--help"], 0), (["--fast"], 2)])
def test_a_flag_is_no_fault(capsys: pytest.CaptureFixture[str], arguments: list[str], status: int) -> None:
    """Who asks for help, or for what there is not, gets the usage, and nothing is tried."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    told = capsys.readouterr()
    assert ended.value.code == status
    assert (told.out + told.err).startswith("usage: python -m tests.faults [-h] [NAME ...]\n")
