import asyncio
import threading
from functools import partial
from pathlib import Path

import msgspec
from railside_agent.seat_memory import SeatMemory
from tests.unit.builders import ONE_HCA, TWO_NUMA, LogLines, hca, machine, tree

from railside_agent.checkpoint_watch import CheckpointWatch
from railside_agent.device_dirs import DeviceDirectories
from railside_agent.inventory import Inventory
from railside_agent.offering import Offering
from railside_agent.port_states import PortStates
from railside_agent.seats import Offer, offer
from railside_agent.starts import ContainerStarts
from railside_agent.sysfs import read_port_states
from railside_proto.machine import DeviceNode
from railside_proto.names import DEVICE_PLUGINS, KUBELET_CHECKPOINT, RESOURCE
from railside_proto.pool import Pool
from railside_runtime.cell import Cell
from railside_sim.stand_in_nodes import StandInNodes


class _HangingFirmware(StandInNodes):
    """Answers nothing until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def read(self, path: Path) -> DeviceNode | None:
        self.released.wait(5)
        return super().read(path)


async def test_what_is_known_is_offered_while_the_first_look_hangs(tmp_path: Path, written: LogLines) -> None:
    """Remembered seats and held ids are listed at once: the kubelet waits 1.2 s for them (law 1, law 3)."""
    root = await asyncio.to_thread(tree, TWO_NUMA + ONE_HCA, tmp_path)
    entry = {"ResourceName": RESOURCE, "DeviceIDs": {"0": ["theirs"]}}
    content = msgspec.json.encode({"Data": {"PodDeviceEntries": [entry]}, "Checksum": 1})
    await asyncio.to_thread(_write, root / DEVICE_PLUGINS / KUBELET_CHECKPOINT, content)
    pool, firmware, seats = Pool(), _HangingFirmware(), Cell[Offer](())
    memory = SeatMemory(root, pool, written.log)
    await asyncio.to_thread(memory.remember, offer(machine(hca(1)), pool))
    ports = PortStates(partial(read_port_states, root), written.log)
    inventory = Inventory(root, firmware, ports=ports, resync_seconds=1, log=written.log)
    checkpoint = CheckpointWatch(root, written.log)
    starts = ContainerStarts(
        pool,
        inventory=inventory,
        offer=seats,
        directories=DeviceDirectories(root, firmware),
        root=root,
        host_root="",
        log=written.log,
    )
    offering = Offering(
        pool,
        inventory=inventory,
        checkpoint=checkpoint,
        starts=starts,
        memory=memory,
        offer=seats,
        log=written.log,
    )
    tasks = [asyncio.create_task(one) for one in (inventory.run(), offering.run())]
    async with asyncio.timeout(1.2):
        listed = await seats.until(bool)
    firmware.released.set()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert {one.seat.id: one.held for one in listed} == {"n0-s0": False, "theirs": True}
    assert inventory.latest.value is None


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
