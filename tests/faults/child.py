"""One run of tests in a process of its own, with a fault or without. It must not judge what it sees."""

import os
from pathlib import Path
from typing import Final

import msgspec
import pytest
from tests.faults.broken_import import BrokenImport
from tests.faults.fault import Fault
from tests.faults.verdict import Outcome, Seen

OUTPUT: Final = "output.txt"
SEEN: Final = "seen.json"


class _Witness:
    """Notes how each test ended."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Outcome] = {}

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before = self.outcomes.get(report.nodeid)
        if before is None or report.outcome != "passed":
            self.outcomes[report.nodeid] = Outcome(result=report.outcome, message=_message(report))


def run_tests(tests: tuple[str, ...], fault: Fault | None, folder: Path) -> None:
    """Run ``tests``, and leave in ``folder`` what was seen and printed."""
    _print_to(folder / OUTPUT)
    hook = BrokenImport(fault) if fault else None
    if hook:
        hook.install()
    witness = _Witness()
    pytest.main([*_OPTIONS, f"--basetemp={folder / 'tmp'}", *tests], plugins=[witness])
    seen = Seen(outcomes=witness.outcomes, imported=hook is None or hook.used)
    (folder / SEEN).write_bytes(msgspec.json.encode(seen))


def read_seen(folder: Path) -> Seen | None:
    """What ``run_tests`` left; None where it did not come to its end."""
    file = folder / SEEN
    return msgspec.json.decode(file.read_bytes(), type=Seen) if file.is_file() else None


_OPTIONS: Final = (
    "--quiet",
    "--tb=short",
    "-p",
    "no:cacheprovider",
    # The process was forked from one that has the libraries already, which costs nothing but nicer assertions.
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)


def _message(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message.partition("\n")[0] if crash else ""


def _print_to(file: Path) -> None:
    """Also what is printed past Python's own streams."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)
