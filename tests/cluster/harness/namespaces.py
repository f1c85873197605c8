"""Answers for one node's own mount, network, pid and host name namespaces, kept by a first process.

Killing that process ends everything in them, as pulling a machine's plug does.
It must not know what runs inside.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from harness import commands, waiting

INIT = Path(__file__).with_name("init.py")
UNSHARE = (
    *("unshare", "--mount", "--net", "--pid", "--uts"),
    *("--propagation", "private", "--fork", "--kill-child", "--mount-proc"),
)


class Namespaces:
    """Made by its constructor, gone after :meth:`end`."""

    def __init__(self, log: Path) -> None:
        with log.open("w") as complaints:
            self._unshare = subprocess.Popen(  # noqa: S603  # programs that stand above
                [*UNSHARE, sys.executable, "-I", "-S", INIT],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                start_new_session=True,
            )
        self._await_first_process(log)
        self.first_pid = psutil.Process(self._unshare.pid).children()[0].pid
        self._pid_namespace = _pid_namespace(self.first_pid)

    def _await_first_process(self, log: Path) -> None:
        assert self._unshare.stdout is not None
        with self._unshare.stdout as output:
            if output.readline() != "ready\n":
                raise RuntimeError(f"a node's namespaces could not be made: {log.read_text()}")

    def entering(self, *argv: str | Path) -> list[str]:
        """The command line that runs ``argv`` inside."""
        return ["nsenter", "-t", str(self.first_pid), "-m", "-n", "-p", "-u", "--", *map(str, argv)]

    def run(self, *argv: str | Path) -> str:
        """What the program, run inside to its end, printed."""
        return commands.run(*self.entering(*argv))

    def pids(self) -> list[int]:
        """All processes inside, numbered as outside."""
        return [pid for pid in psutil.pids() if _pid_namespace(pid) == self._pid_namespace]

    def kill_programs(self) -> None:
        """Kill all processes inside but the first, containers too; return when they are gone."""
        waiting.until(self._only_the_first, "a node's programs to end")

    def _only_the_first(self) -> bool:
        # Those in a container have a namespace of their own, and fall to the first process in the end.
        below = psutil.Process(self.first_pid).children(recursive=True)
        others = {*self.pids(), *(process.pid for process in below)} - {self.first_pid}
        for pid in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not others

    def end(self) -> None:
        """Kill the first process, and so all others; return when they are gone."""
        if self._unshare.poll() is None:
            psutil.Process(self.first_pid).kill()
            self._unshare.wait(timeout=20)


def _pid_namespace(pid: int) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:  # it ended meanwhile
        return None
