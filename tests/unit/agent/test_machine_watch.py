import asyncio
import socket
from pathlib import Path

from tests.conftest import MakeTree
from tests.unit.builders import LogLines
from tests.unit.running import running

from railside_agent.machine_watch import MachineWatch
from railside_agent.pool_settings import PoolSettings
from railside_agent.settings import Settings
from railside_proto.reasons import Code
from railside_sim.stand_in_nodes import StandInNodes


async def test_the_machine_is_seen_as_the_pools_want_it(make_tree: MakeTree, written: LogLines) -> None:
    """Looks begin with the watch, and what no pool wants is left out; with a pool for it, it is not."""
    root = await asyncio.to_thread(make_tree, "ecs.hpcpni3.45xlarge")
    both = (PoolSettings(), PoolSettings(resource="example.com/roce", link_layer="Ethernet"))
    for pools, codes in (((PoolSettings(),), {Code.ETHERNET_LINK}), (both, set())):
        watch = MachineWatch(Settings(root=str(root), pools=pools), StandInNodes(), written.log)
        assert watch.inventory.latest.value is None
        async with running(watch), asyncio.timeout(20):
            look = await watch.inventory.latest.until(lambda look: look is not None)
        assert look is not None
        assert {one.reason.code for one in look.machine.excluded} == codes


async def test_a_port_that_falls_is_seen_without_a_look_at_the_tree(
    make_tree: MakeTree, written: LogLines
) -> None:
    """The ports are asked on their own, and what they answer is in the next picture of the machine (B-DP-37)."""
    root = await asyncio.to_thread(make_tree, "ecs.hpcpni3.45xlarge")
    settings = Settings(root=str(root), port_poll_seconds=1, resync_seconds=3600)
    watch = MachineWatch(settings, StandInNodes(), written.log)
    async with running(watch), asyncio.timeout(20):
        await watch.inventory.latest.until(lambda look: look is not None)
        state = root / "sys/class/infiniband/mlx5_0/ports/1/state"
        await asyncio.to_thread(state.write_text, "1: DOWN\n")
        await watch.inventory.latest.until(
            lambda look: look is not None and look.machine.hcas[0].ports[0].state.name == "DOWN"
        )


async def test_who_tells_of_changes(tmp_path: Path, written: LogLines) -> None:
    """The sources are named with whether they can tell; the cards' own events only where they are asked for."""
    plain = MachineWatch(Settings(root=str(tmp_path)), StandInNodes(), written.log)
    assert plain.sources() == {"uevents": "kernel messages are not heard"}
    asked = MachineWatch(Settings(root=str(tmp_path), verbs=True), StandInNodes(), written.log)
    assert asked.sources().keys() == {"uevents", "verbs"}


async def test_messages_of_the_kernel_are_counted(tmp_path: Path, written: LogLines) -> None:
    """Who writes down how much the kernel said finds it here, also for messages that concern nobody."""
    ours, kernels = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setblocking(False)  # noqa: FBT003 -- the socket's own spelling
    watch = MachineWatch(Settings(root=str(tmp_path)), StandInNodes(), written.log, open_uevents=lambda: ours)
    assert watch.heard == 0
    with kernels:
        for _ in range(3):
            kernels.send(b"add@/devices/x\0ACTION=add\0DEVPATH=/devices/x\0SUBSYSTEM=usb\0")
        async with running(watch), asyncio.timeout(20):
            await watch.inventory.latest.until(lambda look: look is not None)
            assert watch.sources()["uevents"] == "kernel messages are heard"
    assert watch.heard == 3
