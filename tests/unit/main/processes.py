"""Programs as processes of their own, and what they log, line by line. It must not know what a program does."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 20.0
"""More than any of them needs to start or to end."""

Process = subprocess.Popen[str]


@contextmanager
def started(module: str, *words: str) -> Iterator[Process]:
    """``railside_main``'s program of that name, which does not outlive the context."""
    code = f"from railside_main.{module} import main; raise SystemExit(main())"
    with subprocess.Popen([sys.executable, "-c", code, *words], stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 -- our own program
        try:
            yield process
        finally:
            process.kill()


def events_until(process: Process, *wanted: str) -> list[str]:
    """What it logs until all of ``wanted`` were said."""
    assert process.stderr is not None
    said: list[str] = []
    while not set(wanted).issubset(said):
        said.append(json.loads(process.stderr.readline())["event"])
    return said


def last_line(process: Process) -> dict[str, object]:
    """The last that it logs, when it has ended."""
    _, rest = process.communicate(timeout=SECONDS)
    found: dict[str, object] = json.loads(rest.splitlines()[-1])
    return found
