"""Answers for running a program to its end; the only place that calls ``subprocess.run``.

It must not keep programs running: that is :mod:`harness.services`.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path


class CommandError(Exception):
    """A program ended with a failure. Raised by :func:`run`; the reader finds its words in the message."""

    def __init__(self, argv: tuple[str, ...], status: int, stderr: str) -> None:
        super().__init__(f"{' '.join(argv)} ended with {status}: {stderr.strip()}")
        self.status = status
        self.stderr = stderr


def run(
    *argv: str | Path,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = 60,
) -> str:
    """What the program printed; a failure is a :class:`CommandError` with what it complained of."""
    words = tuple(str(word) for word in argv)
    done = subprocess.run(  # noqa: S603  # the harness starts programs that it names itself
        words, input=stdin, env=env, cwd=cwd, timeout=timeout_s, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CommandError(words, done.returncode, done.stderr or done.stdout)
    return done.stdout
