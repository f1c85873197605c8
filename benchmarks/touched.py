"""What one look at a machine opens and lists, as JSON: ``python -m benchmarks.touched ROOT``.

It must not time anything: an audit cannot be ended, so it has a process of its own.
"""

import sys
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.bed import NODES
from railside_agent.sysfs import read_whole_machine

_EVENTS: Final = {"open": "open", "os.listdir": "list", "os.scandir": "list"}


def main(root: str) -> None:
    """Print it, behind an empty line."""
    touched: list[tuple[str, str]] = []

    def note(event: str, facts: tuple[object, ...]) -> None:
        if event in _EVENTS and str(facts[0]).startswith(root):
            touched.append((_EVENTS[event], str(facts[0])))

    sys.addaudithook(note)
    read_whole_machine(Path(root), NODES)
    print("\n" + msgspec.json.encode(touched).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
