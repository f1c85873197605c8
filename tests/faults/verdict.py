"""What a run of tests says of a fault. It must not run them."""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec
from tests.faults.fault import Fault

_MISTAKES = ("NameError", "UnboundLocalError", "ImportError", "ModuleNotFoundError", "SyntaxError")
"""What the table's own slips look like: they turn every test red and prove nothing."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one test, with one set of parameters, ended."""

    result: Literal["passed", "failed", "skipped"]
    message: str = ""
    """The first line of what it failed with."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What one process has seen."""

    outcomes: Mapping[str, Outcome] = {}
    """By pytest's id."""
    imported: bool = True
    """Whether the broken module was imported at all."""


def complaints(fault: Fault, seen: Seen | None) -> Iterator[str]:
    """Why the tests of ``fault`` do not prove what the table says; ``seen`` is None where they did not end."""
    if seen is None:
        yield f"{fault.name}: its tests did not end, or their process died"
        return
    if not seen.imported:
        yield f"{fault.name}: its tests do not import {fault.file}"
        return
    for test in fault.tests:
        why = _complaint(list(outcomes_of(test, seen.outcomes)))
        if why:
            yield f"{fault.name}: {test} {why}"


def complaints_without_fault(tests: tuple[str, ...], seen: Seen | None) -> Iterator[str]:
    """Which of ``tests`` are no witnesses, as they are not green where nothing is wrong."""
    if seen is None:
        yield "without any fault: the tests did not end, or their process died"
        return
    for test in tests:
        found = list(outcomes_of(test, seen.outcomes))
        if not found or any(one.result != "passed" for one in found):
            yield f"without any fault: {test} is not green"


def summary(faults: int, found: int, seconds: float) -> str:
    """The last line: how many faults were tried, and how many complaints there are."""
    # In words of its own: a run must not import what it is to break.
    words = (
        f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in ((faults, "fault"), (found, "complaint"))
    )
    return f"{', '.join(words)}, {seconds:.0f} s"


def outcomes_of(test: str, outcomes: Mapping[str, Outcome]) -> Iterator[Outcome]:
    """What became of ``test`` with each of its parameters, or with those that it names."""
    return (one for name, one in outcomes.items() if name == test or name.startswith(f"{test}["))


def _complaint(found: list[Outcome]) -> str | None:
    if not found:
        return "did not run"
    failed = [one for one in found if one.result == "failed"]
    if failed and all(one.message.startswith(_MISTAKES) for one in failed):
        return f"fails by a mistake in the table: {failed[0].message}"
    if failed:
        return None
    return "was left out" if all(one.result == "skipped" for one in found) else "does not see it"
