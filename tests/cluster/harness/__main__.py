"""Answers for one whole run, from outside: prepare with the network, enter, run, and leave nothing behind.

``tests/cluster/run [--kubernetes VERSION] [pytest arguments | --shell [shell arguments]]``.
It must not start any program of the cluster itself.
"""

import argparse
import os
import shutil
import signal
import sys

from harness import abandoned, commands, enclosure, images, leftovers, packages, tools
from harness.places import ROOT, VARIABLE, Places

KEPT_LOGS = ROOT / "build" / "cluster-logs"
TESTS = ROOT / "tests" / "cluster"
BUILD_IMAGE = ROOT / "deploy" / "image" / "build.py"


def asked_for(arguments: list[str]) -> tuple[str, list[str]]:
    """The version of Kubernetes to run, and the arguments that are for others; ``SystemExit`` for no version."""
    ours = argparse.ArgumentParser("tests/cluster/run", add_help=False, allow_abbrev=False)
    ours.add_argument("--kubernetes", default=tools.DEFAULT_VERSION, choices=tools.versions())
    found, rest = ours.parse_known_args(arguments)
    return found.kubernetes, rest


def prepare(places: Places, kubernetes: str) -> str:
    """All that needs the network, and the images; the PATH of the cluster's programs."""
    packages.ensure()
    path = tools.ensure(kubernetes)
    for folder in (places.logs, places.images, places.scratch):
        folder.mkdir()
    images.write_all(places.images)
    commands.run(sys.executable, BUILD_IMAGE, "--output", places.images / "railside", timeout_s=600)
    return path


def inner_command(places: Places, arguments: list[str]) -> list[str]:
    """What runs inside: the shell, or pytest over this folder."""
    if arguments[:1] == ["--shell"]:
        return [sys.executable, "-m", "cluster_shell", *arguments[1:]]
    chosen = any((ROOT / word.partition("::")[0]).exists() for word in arguments)
    where = [] if chosen else [str(TESTS)]
    return [sys.executable, "-m", "pytest", f"--basetemp={places.scratch / 'pytest'}", *where, *arguments]


def keep_logs(places: Places) -> None:
    """Save what a failed run's programs said from the removal of its work folder."""
    shutil.rmtree(KEPT_LOGS, ignore_errors=True)
    for log in places.workdir.glob("**/log/*.log"):
        target = KEPT_LOGS / log.relative_to(places.workdir)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, target)
    sys.stderr.write(f"The logs of this run are kept in {KEPT_LOGS}\n")


def complain(sentences: list[str]) -> None:
    """Tell a person what a run left behind."""
    for sentence in sentences:
        sys.stderr.write(f"Left behind by this run: {sentence}.\n")


def run(places: Places, arguments: list[str]) -> int:
    """Prepare, run inside, look what is left; the exit status."""
    kubernetes, words = asked_for(arguments)
    facts = leftovers.machine_facts()
    path = prepare(places, kubernetes)
    env = {**os.environ, "PATH": path, "TMPDIR": str(places.scratch), VARIABLE: str(places.workdir)}
    status = enclosure.enter(inner_command(places, words), env)
    left = leftovers.found(places, facts)
    complain(left)
    if status != 0 or left:
        keep_logs(places)
    return status or int(bool(left))


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit status."""
    if os.geteuid() != 0:
        raise SystemExit("The cluster tests need root: they mount, and make namespaces and control groups.")
    abandoned.clear_dead_runs()
    places, lock = abandoned.new_run()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda caught, _: sys.exit(128 + caught))
    try:
        return run(places, arguments)
    finally:
        complain(leftovers.clear(places))
        lock.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
