"""Answers for the cluster's long-running programs: each a service with its log, started until it is ready.

It must not know Kubernetes, and it signals only processes that it started itself.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness import waiting
from harness.namespaces import Namespaces

TAIL_LINES = 25


class ServiceError(Exception):
    """A service ended, or was not ready in time. The reader finds the end of its log in the message."""


@dataclass
class Service:
    """One program: ``ready`` tells when it serves; ``inside`` names the node whose namespaces it runs in."""

    name: str
    argv: Sequence[str | Path]
    log: Path
    ready: Callable[[], bool]
    inside: Namespaces | None = None
    _process: "subprocess.Popen[bytes] | None" = None

    def launch(self) -> None:
        """Start the program and return at once."""
        words = self.inside.entering(*self.argv) if self.inside else [str(word) for word in self.argv]
        with self.log.open("ab") as output:
            # A session of its own: the terminal's ctrl-C is for the tests or the shell, not for the cluster.
            self._process = subprocess.Popen(  # noqa: S603  # the harness starts programs that it names itself
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def await_ready(self, timeout_s: float = 40) -> None:
        """Return when the program serves; else :class:`ServiceError`."""
        try:
            waiting.until(self._ended_or_ready, f"{self.name} to serve", timeout_s)
        except TimeoutError as error:
            raise ServiceError(f"{error}\n{self.tail()}") from None
        if not self.running:
            raise ServiceError(f"{self.name} ended before it served\n{self.tail()}")

    def start(self) -> None:
        """Start the program; return when it serves."""
        self.launch()
        self.await_ready()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The program's own pid: in a node, that of the child of the program that entered for it."""
        if self._process is None:
            raise ServiceError(f"{self.name} was never started")
        entered = psutil.Process(self._process.pid).children() if self.inside else []
        return entered[0].pid if entered else self._process.pid

    def kill(self) -> None:
        """End the program as ``kill -9`` does, and nothing else; return when it is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask the program to end; return when it is gone."""
        self._end(signal.SIGTERM)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """The program stands still; who talks to it waits."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def restart(self, *, graceful: bool = False) -> None:
        """Kill or stop the program and start it again; return when it serves."""
        self._end(signal.SIGTERM if graceful else signal.SIGKILL)
        self.start()

    def _end(self, number: signal.Signals) -> None:
        if self._process is None or not self.running:
            return
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            os.kill(self.pid, number)
        self._process.wait(timeout=30)

    def tail(self) -> str:
        """The end of the log, for a person who must find out why."""
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join([f"--- the end of {self.log}:", *lines])

    def _ended_or_ready(self) -> bool:
        return not self.running or self.ready()
