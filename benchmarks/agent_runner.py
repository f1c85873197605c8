"""The agent as a process of its own where the real program cannot run: ``agent_runner SETTINGS [DESCRIPTOR]``.

Without root it is given stand-ins for device nodes; with a descriptor it hears uevents there and not from the
kernel. It must not change anything else of the agent.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Sequence

import msgspec


def main(arguments: Sequence[str]) -> None:
    """Run until terminated."""
    # As in the image, where only the command line has it.
    sys.modules["rich"] = None  # type: ignore[assignment]
    # Behind that line, and so that importing this module costs nothing.
    from railside_agent.app import Agent  # noqa: PLC0415
    from railside_agent.device_nodes import CharacterDevices  # noqa: PLC0415
    from railside_agent.settings import Settings  # noqa: PLC0415
    from railside_runtime.logs import make_logger  # noqa: PLC0415
    from railside_sim.stand_in_nodes import StandInNodes  # noqa: PLC0415

    settings = msgspec.json.decode(arguments[0], type=Settings)
    agent = Agent(
        settings,
        make_logger("info", "json", sys.stderr.buffer),
        CharacterDevices() if os.geteuid() == 0 else StandInNodes(),
        open_uevents=(lambda: socket.socket(fileno=int(arguments[1]))) if len(arguments) > 1 else None,
    )
    asyncio.run(agent.run())


if __name__ == "__main__":
    main(sys.argv[1:])
