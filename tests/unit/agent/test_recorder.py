import asyncio
from pathlib import Path

from tests.unit.agent.flight_desk import INFINIBAND_POOL, Desk, found
from tests.unit.agent.test_flight_ring import StuckLog

from railside_agent.flight_log import Began, Note, read
from railside_agent.flight_ring import MOST_WAITING, recorded
from railside_agent.raw_machine import RawMachine
from railside_agent.replay import Replayed, replay
from railside_proto.names import RECORDER_DIR

_DOWN, _ACTIVE = "1: DOWN", "4: ACTIVE"


async def test_what_is_not_new_is_not_kept_again(raw: RawMachine, tmp_path: Path) -> None:
    """A list that says nothing new costs no line, and of the machine only what changed is written."""
    desk = Desk(raw, tmp_path)
    desk.look()
    desk.relist()
    first = len(await desk.text())
    desk.look()
    desk.relist()
    again = len(await desk.text())
    desk.port("mlx5_0", _DOWN)
    desk.relist()
    kinds = [type(entry).__name__ for entry in read(await desk.text())]
    assert first == again
    assert kinds == ["Began", "TreeSeen", "PortsSeen", "CheckpointSeen", "ListMade", "PortsSeen", "ListMade"]


async def test_nothing_is_kept_for_no_space(raw: RawMachine, tmp_path: Path) -> None:
    """An operator who gives no space gets no files, and no folder for them."""
    desk = Desk(raw, tmp_path / "root", bytes_at_most=0)
    desk.look()
    desk.relist()
    await desk.start("n0-s0")
    desk.recorder.note("Allocate")
    assert await desk.text() == b""
    assert not await asyncio.to_thread((tmp_path / "root").exists)


async def test_a_storm_of_notes_leaves_room_for_decisions(raw: RawMachine, tmp_path: Path) -> None:
    """Notes take a quarter of a file at most, the last of which says so, and decisions go on being kept."""
    desk = Desk(raw, tmp_path, bytes_at_most=1 << 20)
    desk.look()
    desk.relist()
    for number in range(2000):
        desk.recorder.note("kernel messages", heard=number)
        if number % 100 == 0:
            await asyncio.to_thread(desk.recorder.flush, 10)
    desk.port("mlx5_0", _DOWN)
    desk.relist()
    steps = await desk.steps()
    notes = [step for step in steps if isinstance(step, Note)]
    lines = (await desk.text()).splitlines()
    assert (1 << 15) - 100 < sum(len(line) + 1 for line in lines if b'"note"' in line) < (1 << 15) + 300
    assert notes[-1].what == "no more notes in this file: there were too many"
    assert [step.what for step in steps if isinstance(step, Replayed)] == [
        "list of 8 seats, 8 healthy, 0 held",
        "list of 8 seats, 7 healthy, 0 held",
    ]


async def test_a_start_before_the_list_of_a_new_file(raw: RawMachine, tmp_path: Path) -> None:
    """A start that begins a file brings all that it was decided with."""
    # So little that each decision fills a file.
    desk = Desk(raw, tmp_path, bytes_at_most=1 << 17)
    desk.look()
    desk.relist()
    desk.port("mlx5_0", _DOWN)
    desk.deal("train", "n0-s0")
    await desk.start("n0-s0")
    text = await desk.text()
    head = text.rindex(b'{"type":"began"', 0, text.index(b'"type":"start"'))
    steps = [step for step in replay(read(text[head:])) if isinstance(step, Replayed)]
    assert [one.what for one in steps] == ["start of n0-s0: 0000:2b:00.0", "list of 8 seats, 7 healthy, 1 held"]
    assert found(steps) == []


async def test_behind_a_disk_that_was_too_slow_the_recording_begins_anew(raw: RawMachine, tmp_path: Path) -> None:
    """Lines that were dropped are counted in the head of the next file, and nothing behind it rests on them."""
    log, folder = StuckLog(), tmp_path / RECORDER_DIR
    folder.parent.mkdir(parents=True)
    folder.write_text("no folder")
    desk = Desk(raw, tmp_path, log=log)
    desk.look()
    desk.relist()
    assert await asyncio.to_thread(log.reached.wait, 10)
    for _ in range(MOST_WAITING + 3):
        desk.recorder.note("Allocate")
    desk.port("mlx5_0", _DOWN)
    desk.relist()
    await asyncio.to_thread(folder.unlink)
    log.released.set()
    assert await asyncio.to_thread(desk.recorder.flush, 10)
    desk.port("mlx5_0", _ACTIVE)
    desk.relist()
    desk.now += 20
    desk.relist()
    steps = await desk.steps()
    assert [step.dropped for step in steps if isinstance(step, Began)][-1] >= 3
    assert found([step for step in steps if isinstance(step, Replayed)]) == []
    assert desk.relist() == dict.fromkeys(desk.relist(), True)


async def test_behind_a_disk_that_refused_the_recording_begins_anew(raw: RawMachine, tmp_path: Path) -> None:
    """What a full disk did not take is not missed by what comes when it takes lines again."""
    desk = Desk(raw, tmp_path)
    desk.look()
    desk.relist()
    await desk.text()
    folder = tmp_path / RECORDER_DIR
    away = await asyncio.to_thread(folder.rename, tmp_path / "away")
    for state in (_DOWN, _ACTIVE):
        desk.port("mlx5_0", state)
        desk.relist()
        assert await asyncio.to_thread(desk.recorder.flush, 10)
    assert await asyncio.to_thread(folder.is_dir)
    assert "the recorder could not write" in desk.written.events
    desk.now += 20
    desk.relist(INFINIBAND_POOL)
    assert found(await desk.decided()) == []
    assert sum(isinstance(entry, Began) for entry in read(await asyncio.to_thread(recorded, away))) == 1


async def test_a_line_that_was_cut_costs_no_later_file(raw: RawMachine, tmp_path: Path) -> None:
    """A power failure in the middle of a line is passed over, and the next start's file is replayed."""
    for _ in range(2):
        desk = Desk(raw, tmp_path)
        desk.look()
        desk.relist()
        desk.port("mlx5_0", _DOWN)
        desk.relist()
        await desk.text()
        last = max(await asyncio.to_thread(lambda: list((tmp_path / RECORDER_DIR).iterdir())))
        await asyncio.to_thread(lambda last=last: last.write_bytes(last.read_bytes()[:-20]))  # type: ignore[misc]
    steps = await desk.steps()
    assert [type(step).__name__ for step in steps] == ["Began", "Replayed", "Began", "Replayed"]
    assert found([step for step in steps if isinstance(step, Replayed)]) == []
