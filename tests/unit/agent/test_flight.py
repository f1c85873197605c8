import asyncio
import io
import json
from pathlib import Path
from typing import cast

from rich.console import Console
from tests.unit.agent.living_node import LivingNode, device_nodes

from railside_agent.flight_log import Entry, Note, StartMade, read
from railside_agent.flight_ring import recorded
from railside_agent.replay import Replayed, replay
from railside_cli.exit_status import FINDING, FINE
from railside_cli.flight import show
from railside_proto.names import RECORDER_DIR


async def _fly(node: LivingNode) -> Path:
    """A few pods come, start again and go, and an HCA dies under one of them; where that is recorded."""
    async with node.agent():
        await node.allocatable(8)
        first = await node.run("train-0")
        await node.run("train-1")
        await node.run("wide", 2)
        await node.kubelet.restart_container("train-0")
        view = await node.until(lambda view: len(view.pools[0].bindings) == 3)
        assert view.machine is not None
        dead = next(hca for hca in view.machine.hcas if [hca.uverbs.name] == device_nodes(first))
        await node.set_port(dead.name, "1: DOWN")
        await node.until(lambda view: any(one.held and one.reason for one in view.pools[0].offer.seats))
        await node.kubelet.restart_container("train-0")
        await node.kubelet.remove("train-1")
        last = await node.run("next")
        await node.until(lambda view: last.seats in {one.seats for one in view.pools[0].bindings})
    return node.root / RECORDER_DIR


def _shown(folder: Path, *, as_json: bool = False) -> tuple[int, str]:
    out = io.StringIO()
    return show(folder, Console(file=out, highlight=False, soft_wrap=True), as_json=as_json), out.getvalue()


async def test_what_the_real_agent_did_is_decided_again_the_same(node: LivingNode) -> None:
    """A recording of the agent beside a kubelet replays without a difference, all its starts and deals in it."""
    text = await asyncio.to_thread(recorded, await _fly(node))
    entries = list(read(text))
    steps = [step for step in replay(entries) if isinstance(step, Replayed)]
    starts = {entry.seats for entry in entries if isinstance(entry, StartMade)}
    dealt = {seats for entry in entries if (seats := _dealt(entry)) is not None}
    assert [step for step in steps if step.differences] == []
    assert len(dealt) >= 3
    assert dealt == set(map(frozenset, starts))


def _dealt(entry: Entry) -> frozenset[str] | None:
    match entry:
        case Note(what="Allocate", facts={"seats": list(seats)}):
            return frozenset(seats)
        case _:
            return None


async def test_what_is_bound_when_it_is_dealt_is_recorded_too(node: LivingNode) -> None:
    """With binding: allocate both the deal, which binds, and the start, which checks, are in the recording."""
    async with node.agent(binding="allocate"):
        await node.allocatable(8)
        pod = await node.run("train")
        await node.until(lambda view: len(view.pools[0].bindings) == 1)
    entries = list(read(await asyncio.to_thread(recorded, node.root / RECORDER_DIR)))
    steps = [step for step in replay(entries) if isinstance(step, Replayed)]
    assert [step for step in steps if step.differences] == []
    assert [entry.seats for entry in entries if isinstance(entry, StartMade)] == [pod.seats] * 2


async def test_what_the_kernel_says_is_noted_with_the_looks(node: LivingNode) -> None:
    """How many messages were heard stands beside the decisions, and a look without any leaves no note."""
    async with node.agent():
        await node.allocatable(8)
        for _ in range(3):
            node.kernel.send(b"change@/devices/x\0ACTION=change\0DEVPATH=/devices/x\0SUBSYSTEM=infiniband\0")
        before = await node.until(lambda view: view.machine is not None)
        await node.set_port("mlx5_0", "1: DOWN")
        await node.until(lambda view: view.machine != before.machine)
    entries = read(await asyncio.to_thread(recorded, node.root / RECORDER_DIR))
    heard = [
        entry.facts["heard"] for entry in entries if isinstance(entry, Note) and entry.what == "kernel messages"
    ]
    assert 0 not in heard
    assert sum(cast("list[int]", heard)) == 3


async def test_the_replay_of_a_node_that_did_right(node: LivingNode) -> None:
    """One verdict line, each decision and note with its time, and exit status 0."""
    status, text = await asyncio.to_thread(_shown, await _fly(node))
    lines = text.splitlines()
    assert status == FINE
    assert lines[0].startswith("all ")
    assert lines[0].endswith(" decisions come out as recorded")
    assert lines[1].split(maxsplit=1)[1].startswith("agent ")
    assert any("Allocate pool=infiniband-rdma seats=n" in line for line in lines)
    assert any("GetPreferredAllocation pool=infiniband-rdma seats=n" in line for line in lines)
    assert any("start of n" in line for line in lines)


async def test_the_replay_of_a_node_that_did_otherwise(node: LivingNode) -> None:
    """What comes out otherwise is shown below its decision, and is a finding; programs get the same."""
    folder = await _fly(node)

    def told() -> tuple[int, str, int, str]:
        (file,) = folder.iterdir()
        lines = [_refused(line) for line in file.read_bytes().splitlines(keepends=True)]
        file.write_bytes(b"".join(lines))
        return (*_shown(folder), *_shown(folder, as_json=True))

    status, text, again, _ = await asyncio.to_thread(told)
    assert (status, again) == (FINDING, FINDING)
    assert "decisions come out otherwise than recorded" in text.splitlines()[0]
    assert "was refused (HcaGone), is 0000:" in text
    assert text.splitlines()[-1].startswith("Next: run this with the agent's own version")


def _refused(line: bytes) -> bytes:
    entry = json.loads(line)
    if entry["type"] != "start":
        return line
    return json.dumps({**entry, "binding": None, "refusal": "HcaGone"}).encode() + b"\n"


async def test_an_agent_without_space_records_nothing(node: LivingNode) -> None:
    """With recorderMegabytes 0 the agent serves, and leaves no file."""
    async with node.agent(recorder_megabytes=0):
        await node.allocatable(8)
        await node.run("train")
    assert not await asyncio.to_thread((node.root / RECORDER_DIR).exists)
