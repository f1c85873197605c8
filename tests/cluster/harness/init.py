"""Answers for the first process of a pid namespace: it reaps whatever ends there.

``init.py`` alone says "ready" and reaps until it is killed, which ends the whole namespace;
``init.py PROGRAM ...`` runs the program and ends, and the namespace with it, with the program's status.
It must not import anything beyond the standard library: it runs without site-packages.
"""

import os
import signal
import sys

DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start(argv: list[str]) -> int:
    """The pid of the program, which hears the signals that its parent is deaf to."""
    return os.posix_spawnp(argv[0], argv, os.environ, setsigmask=[], setsigdef=[*DEAF_TO, signal.SIGCHLD])


def reap(awaited: int | None) -> int | None:
    """Collect all that ended; the exit status of the awaited one, if it is among them."""
    result = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return result
        if pid == 0:
            return result
        if pid == awaited:
            result = os.waitstatus_to_exitcode(status)


def main(argv: list[str]) -> int:
    """Run the command line; return the exit status."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for number in DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    awaited = start(argv) if argv else None
    if awaited is None:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
    while (status := reap(awaited)) is None:
        signal.sigwait({signal.SIGCHLD})
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
