"""The agent's eyes as a process of their own: writes what it sees of the machine, a line for each change.

It answers for putting the agent's parts together, below the root that umockdev plays. It must not look at anything
by itself.
"""

import asyncio
import sys
from functools import partial
from pathlib import Path

import msgspec

from railside_agent.device_nodes import CharacterDevices
from railside_agent.inventory import Inventory
from railside_agent.port_states import PortStates
from railside_agent.sysfs import read_port_states
from railside_agent.uevents import Uevents
from railside_runtime.logs import make_logger

RESYNC_SECONDS = 3600.0
"""So that nothing is seen by it."""

ROOT = Path("/")


async def watch() -> None:
    """Write the machine and the counts of messages at each change, until killed."""
    log = make_logger("debug", "json", sys.stderr.buffer)
    ports = PortStates(partial(read_port_states, ROOT), log, poll_seconds=0.1)
    inventory = Inventory(ROOT, CharacterDevices(), ports=ports, resync_seconds=RESYNC_SECONDS, log=log)
    uevents = Uevents(inventory.look_again, log)
    async with asyncio.TaskGroup() as tasks:
        for part in (ports, inventory, uevents):
            tasks.create_task(part.run())
        await uevents.source_up.until(bool)
        async for look in inventory.latest.changes():
            if look is not None:
                line = {"machine": look.machine, "messages": uevents.counts}
                sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
                sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(watch())
