"""Situations that users of other plugins ran into, lived through by the whole agent beside a kubelet."""

import asyncio
import os
import time
from pathlib import Path

import msgspec
from tests.unit.agent.living_node import LivingNode, device_nodes

from railside_agent.container_edits import ALLOCATIONS
from railside_agent.view import View
from railside_proto.names import RUN_DIR, STATE_DIR
from railside_proto.reasons import Code
from railside_sim.pods import Pending, PodRequest


def _tree(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything below the kernel's folders: what kind it is, when it was last written, and what stands in it."""
    found: dict[str, tuple[object, ...]] = {}
    for top in ("sys", "proc", "dev", "var/run"):
        for path in sorted((root / top).rglob("*")):
            facts = path.lstat()
            content: object = (
                path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
            )
            found[str(path.relative_to(root))] = (facts.st_mode, facts.st_mtime_ns, facts.st_ino, content)
    return found


async def test_the_agent_writes_nothing_into_the_machines_tree(node: LivingNode) -> None:
    """A life of looks, deals, starts and ends sets no link up and touches no file of the kernel's (B-DP-19)."""
    before = await asyncio.to_thread(_tree, node.root)
    async with node.agent():
        await node.allocatable(8)
        await node.run("train", 2)
        await node.kubelet.restart_container("train")
        await node.kubelet.remove("train")
        await node.run("next")
        first = await node.until(lambda view: view.machine is not None)
        assert first.machine is not None
    after = await asyncio.to_thread(_tree, node.root)
    written = await asyncio.to_thread(lambda: {path.name for path in node.root.iterdir()} - {"sys", "proc", "dev"})
    assert len(before) > 500
    assert before == after
    assert written == {Path(RUN_DIR).parts[0], Path(STATE_DIR).parts[0]}


async def test_what_an_earlier_life_left_is_held_against_the_node_of_now(node: LivingNode) -> None:
    """At its start the agent forgets pods that have gone, takes their folders away, and withdraws what is untrue.

    A pod that still holds its seat keeps it, though its HCA has gone; nothing leaks (B-DP-65).
    """
    async with node.agent():
        await node.allocatable(8)
        gone, stays = await node.run("gone"), await node.run("stays")
        await node.until(lambda view: len(view.pools[0].bindings) == 2)
    uid = node.kubelet.uid("gone")
    await node.kubelet.remove("gone")
    await node.kubelet.stop()
    await asyncio.to_thread(_forget, node.checkpoint, uid)
    await node.kubelet.start()
    await asyncio.to_thread(_while_away, node.root, *device_nodes(stays))
    async with node.agent():
        await node.until(
            lambda view: tuple(one.seat.id for one in view.pools[0].offer.seats if one.held) == stays.seats
        )
        await node.until(lambda view: _live(view) == [stays.seats])
        told = await node.until(lambda view: any(one.reason for one in view.pools[0].offer.seats if one.held))
        (seat,) = (one for one in told.pools[0].offer.seats if one.held)
        assert seat.reason is not None
        assert seat.reason.code is Code.HCA_GONE
        folders = node.root / ALLOCATIONS
        # That of the pod that never was is collected in time.
        await node.until(lambda _: len(_laid_out(folders)) == 1)
        assert gone.seats != stays.seats


def _forget(checkpoint: Path, uid: str) -> None:
    """The kubelet's file is that of a node on which the pod ``uid`` never was."""
    content = msgspec.json.decode(checkpoint.read_bytes())
    entries = content["Data"]["PodDeviceEntries"]
    content["Data"]["PodDeviceEntries"] = [one for one in entries if one["PodUID"] != uid]
    checkpoint.write_bytes(msgspec.json.encode(content))


def _while_away(root: Path, device: str) -> None:
    """An HCA goes, and every folder grows old."""
    name = (root / f"sys/class/infiniband_verbs/{device}/ibdev").read_text().strip()
    (root / "sys/class/infiniband" / name).unlink()
    for folder in (root / ALLOCATIONS).iterdir():
        os.utime(folder, (time.time() - 3600,) * 2)


def _live(view: View) -> list[tuple[str, ...]]:
    """Seats of all containers that count as bound."""
    used = view.pools[0].offer.usage
    return [one.seats for one in used.live] if used else []


def _laid_out(folders: Path) -> list[Path]:
    return [link for link in folders.glob("*/ib") if link.is_symlink()]


async def test_told_to_stop_it_hangs_up_and_waits_for_nobody(node: LivingNode) -> None:
    """With the kubelet's stream open the agent ends by itself, and the stream with it; no task stays (B-DP-66)."""
    others = asyncio.all_tasks()
    async with node.agent():
        await node.allocatable(8)
        await node.until(lambda view: view.pools[0].registration.streams == 1)
        serving = asyncio.all_tasks() - others
        await node.stop()
        assert node.running.cancelled()
        await node.allocatable(0)
        ours = {task for task in serving if not task.get_name().startswith("follow ")}
        _, left = await asyncio.wait(ours, timeout=10)
        assert left == set()


async def test_a_device_that_is_half_made_is_never_offered(node: LivingNode) -> None:
    """While a driver loads, an HCA without its node is left out, with why, till it is whole (B-DP-3)."""
    device = node.root / "dev/infiniband/uverbs4"
    made = await asyncio.to_thread(device.read_bytes)
    facts = await asyncio.to_thread(device.stat)
    await asyncio.to_thread(device.unlink)
    async with node.agent():
        await node.allocatable(7)
        view = await node.until(lambda view: view.machine is not None)
        assert view.machine is not None
        assert Code.UVERBS_MISSING in {one.reason.code for one in view.machine.excluded}
        pods = [await node.run(f"pod-{number}") for number in range(7)]
        assert "uverbs4" not in {name for pod in pods for name in device_nodes(pod)}
        assert isinstance(await node.kubelet.admit(PodRequest(name="eighth")), Pending)
        await asyncio.to_thread(device.write_bytes, made)
        await asyncio.to_thread(device.chmod, facts.st_mode)
        await node.allocatable(8)
        assert device_nodes(await node.run("ninth")) == ["uverbs4"]


async def test_a_preference_is_always_answered_beside_a_dead_device(node: LivingNode) -> None:
    """One HCA that is dead keeps no pod from getting those that are not, whatever the kubelet asks (B-DP-46)."""
    async with node.agent():
        await node.allocatable(8)
        await node.set_port("mlx5_4", "1: DOWN")
        await node.allocatable(7)
        wide = await node.run("wide", 3)
        pods = [await node.run(f"pod-{number}") for number in range(4)]
        devices = [name for pod in (wide, *pods) for name in device_nodes(pod)]
        assert len(set(devices)) == len(devices) == 7


async def test_eight_seats_of_a_shared_node_are_eight_cards(node: LivingNode) -> None:
    """A pod of eight in ib-shared-multi has eight HCAs, where seats fit every zone (B-DP-47)."""
    async with node.agent(mode="ib-shared-multi", advertise_topology="never"):
        await node.allocatable(128)
        await node.run("one")
        assert len(set(device_nodes(await node.run("eight", 8)))) == 8


async def test_eight_seats_of_one_zone_share_its_cards_evenly(node: LivingNode) -> None:
    """A pod of eight that the kubelet keeps on one NUMA node has all four HCAs of it, each twice (B-DP-47)."""
    async with node.agent(mode="ib-shared-multi"):
        await node.allocatable(128)
        pod = await node.run("eight", 8)
        assert len({seat[:2] for seat in pod.seats}) == 1
        view = await node.until(lambda view: view.pools[0].bindings != ())
        hcas = view.pools[0].bindings[0].hcas
        assert sorted(hcas.count(one) for one in set(hcas)) == [2, 2, 2, 2]
        assert len(device_nodes(pod)) == 4
