"""railside-agent for the kit: ``our_agent ROOT KUBELET_FOLDER``, with stand-ins for device nodes, so without root.

It must not change anything else of the agent but what a test cannot wait for.
"""

import asyncio
import socket
import sys

from railside_agent.app import Agent
from railside_agent.settings import Settings
from railside_runtime.logs import make_logger
from railside_sim.stand_in_nodes import StandInNodes


def main() -> None:
    """Run until killed."""
    root, kubelet_dir = sys.argv[1:]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = Settings(
        root=root,
        host_root=root,
        kubelet_dir=kubelet_dir,
        listen_port=port,
        mode="ib-shared",
        # No kernel tells of a tree's changes.
        resync_seconds=1,
    )
    asyncio.run(Agent(settings, make_logger("info", "json", sys.stderr.buffer), StandInNodes()).run())


if __name__ == "__main__":
    main()
