"""Breaks the agent line by line, and demands that the tests named for each line turn red.

``python -m tests.faults [NAME...]`` tries the faults of those names, or all.

It must not touch the tree: each fault is put in while its module is imported, in a process of its own.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Final

from tests.faults.child import OUTPUT, read_seen, run_tests
from tests.faults.fault import REPOSITORY, Fault, misfits, read_faults
from tests.faults.verdict import Seen, complaints, complaints_without_fault, summary

LIMIT_SECONDS: Final = 150.0
"""For one process; a test that waits for what a fault prevents ends by its own timeout before that."""

WAITING: Final = 2
"""Processes beyond one for each core: some tests wait for what their fault prevents, and do nothing meanwhile."""

_KEPT: Final = REPOSITORY / "build/faults"
"""Where what the tests printed is kept."""

_LIBRARIES: Final = (
    "aiohttp",
    "asyncinotify",
    "blockbuster",
    "google.protobuf.descriptor_pool",
    "grpclib.client",
    "grpclib.server",
    "hypothesis.stateful",
    "msgspec",
    "pytest",
    "structlog",
    "yaml",
)
"""What every run imports, and what is not ours: imported once and inherited, it costs each run nothing."""


def main(arguments: Sequence[str]) -> int:
    """Try the faults that are named, or all; 1 where one is not seen as the table says."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults",
        description="Breaks the agent line by line: the tests named for each line must turn red.",
        allow_abbrev=False,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a fault of tests/faults/faults.toml; else all")
    names: list[str] = parser.parse_args(arguments).names
    began = time.monotonic()
    faults = [one for one in read_faults() if not names or one.name in names]
    unknown = sorted(set(names) - {one.name for one in faults})
    wrong = [f"there is no fault called {name}" for name in unknown]
    wrong += [why for fault in faults for why in misfits(fault)]
    if not wrong:
        wrong = list(_tried(faults))
    for why in wrong:
        print(f"NOT SEEN  {why}")
    seconds = time.monotonic() - began
    print(f"{summary(len(faults), len(wrong), seconds)}; output in {_KEPT}")
    return 1 if wrong else 0


def _tried(faults: Sequence[Fault]) -> Iterator[str]:
    """What is wrong with any of them, and with their tests where nothing is broken."""
    everything = tuple(dict.fromkeys(test for fault in faults for test in fault.tests))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_LIBRARIES))
    with (
        tempfile.TemporaryDirectory(prefix="faults-") as folder,
        ThreadPoolExecutor(len(os.sched_getaffinity(0)) + WAITING) as pool,
    ):
        # Tests of the product may keep examples that failed, and these must not come up in other runs.
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = f"{folder}/examples"
        bench = _Bench(context, Path(folder))
        sound = pool.submit(bench.run, "sound", everything, None)
        broken = {pool.submit(bench.run, one.name, one.tests, one): one for one in faults}
        yield from complaints_without_fault(everything, sound.result())
        yield from _judged(broken)


def _judged(runs: dict[Future[Seen | None], Fault]) -> Iterator[str]:
    for run in as_completed(runs):
        fault = runs[run]
        found = list(complaints(fault, run.result()))
        print(f"{'NOT SEEN' if found else 'seen    '}  {fault.name}", flush=True)
        yield from found


class _Bench:
    """Runs tests in processes that are forked from one which has the libraries and nothing of ours."""

    def __init__(self, context: ForkServerContext, folder: Path) -> None:
        self._context = context
        self._folder = folder
        _KEPT.mkdir(parents=True, exist_ok=True)

    def run(self, name: str, tests: Iterable[str], fault: Fault | None) -> Seen | None:
        folder = self._folder / name
        folder.mkdir()
        process = self._context.Process(target=run_tests, args=(tuple(tests), fault, folder), name=name)
        process.start()
        process.join(LIMIT_SECONDS)
        process.kill()
        process.join()
        if (folder / OUTPUT).exists():
            (folder / OUTPUT).replace(_KEPT / f"{name}.txt")
        return read_seen(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
