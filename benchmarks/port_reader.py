"""Reads every port file of a machine each second, and nothing else: ``python -m benchmarks.port_reader ROOT``.

It is the floor of the agent's CPU at rest. It must not import anything of the agent.
"""

import sys
import time
from pathlib import Path
from typing import Final

_FILES: Final = ("state", "phys_state", "rate", "lid", "sm_lid")


def main(root: str) -> None:
    """Read for ever."""
    ports = sorted(Path(root).glob("sys/class/infiniband/*/ports/*"))
    paths = [port / name for port in ports for name in _FILES]
    print(flush=True)
    while True:
        for path in paths:
            path.read_bytes()
        time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1])
