"""Answers for the namespaces around one run: entering them from outside, and arranging them from inside.

``python -m harness.enclosure PROGRAM ...`` arranges and becomes the program; :func:`enter` calls that.
It must not leave anything changed outside.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping

from harness import commands, network
from harness.namespaces import INIT
from harness.places import Places

UNSHARE = (
    # The cluster ends with the one who started it, however that one ends.
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--net", "--pid", "--propagation", "slave", "--fork", "--kill-child", "--mount-proc"),
)


def enter(argv: list[str], env: Mapping[str, str]) -> int:
    """Run ``argv`` as the run's program; its exit status. Ctrl-C is the program's to answer."""
    inner = [sys.executable, "-m", "harness.enclosure", *argv]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        words = [*UNSHARE, sys.executable, "-I", "-S", str(INIT), *inner]
        return subprocess.run(words, env=env, check=False).returncode  # noqa: S603  # the caller's program
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def arrange() -> None:
    """Give this run a /run of its own, and the cluster's side of the network."""
    commands.run("mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run")
    network.raise_bridge()


def main(argv: list[str]) -> None:
    """Arrange and become the program; ``SystemExit`` outside of a run's namespaces."""
    if Places.of_this_run() is None or os.getppid() != 1:
        raise SystemExit("This arranges the namespaces of tests/cluster/run; start that instead.")
    arrange()
    os.execvp(argv[0], argv)  # noqa: S606  # the caller's program


if __name__ == "__main__":
    main(sys.argv[1:])
