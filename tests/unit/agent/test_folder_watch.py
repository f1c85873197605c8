import asyncio
from pathlib import Path

import pytest
from tests.unit.builders import LogLines

from railside_agent.folder_watch import LOOK_ANYWAY_SECONDS, POLL_SECONDS, FolderWatch


async def _wait(watch: FolderWatch) -> float:
    """How long ``watch`` waits, in seconds of the loop."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    await watch.changed()
    return loop.time() - started


async def test_a_new_file_wakes(tmp_path: Path, written: LogLines) -> None:
    """A socket that appears is an event and not a matter of time."""
    async with FolderWatch(tmp_path, written.log) as watch:
        (tmp_path / "kubelet.sock").touch()
        assert await _wait(watch) < LOOK_ANYWAY_SECONDS / 2


async def test_a_deleted_file_wakes(tmp_path: Path, written: LogLines) -> None:
    """A socket that goes is an event too."""
    (tmp_path / "own.sock").touch()
    async with FolderWatch(tmp_path, written.log) as watch:
        (tmp_path / "own.sock").unlink()
        assert await _wait(watch) < LOOK_ANYWAY_SECONDS / 2


async def test_a_change_before_the_wait_is_not_lost(tmp_path: Path, written: LogLines) -> None:
    """What happens between look and wait wakes the wait, again and again."""
    async with FolderWatch(tmp_path, written.log) as watch:
        for name in ("a", "b", "c"):
            (tmp_path / name).touch()
            assert await _wait(watch) < LOOK_ANYWAY_SECONDS / 2


@pytest.mark.looptime
async def test_it_looks_anyway_after_a_while(tmp_path: Path, written: LogLines) -> None:
    """Where nothing happens the wait ends all the same, as an event may be lost."""
    async with FolderWatch(tmp_path, written.log) as watch:
        assert pytest.approx(LOOK_ANYWAY_SECONDS, abs=0.1) == await _wait(watch)


@pytest.mark.looptime
async def test_what_cannot_be_watched_is_polled(tmp_path: Path, written: LogLines) -> None:
    """Without a watch, as with no folder yet or no inotify instance left, it polls and says so (B-DP-29)."""
    async with FolderWatch(tmp_path / "absent", written.log) as watch:
        assert pytest.approx(POLL_SECONDS, abs=0.05) == await _wait(watch)
    assert written.events == ["the folder is polled, as it cannot be watched"]


async def test_a_folder_that_is_made_anew_is_watched_again(tmp_path: Path, written: LogLines) -> None:
    """A folder that goes and comes back costs a few polls, and its changes are events again."""
    folder = tmp_path / "device-plugins"
    folder.mkdir()
    async with FolderWatch(folder, written.log) as watch:
        folder.rmdir()
        await watch.changed()
        folder.mkdir()
        assert await _wait(watch) < LOOK_ANYWAY_SECONDS / 2
        (folder / "kubelet.sock").touch()
        assert await _wait(watch) < LOOK_ANYWAY_SECONDS / 2
    assert written.events == []


async def test_a_watch_is_given_back(tmp_path: Path, written: LogLines) -> None:
    """Hundreds of watches one after the other take no more than one inotify instance (B-DP-22)."""
    for _ in range(200):
        async with FolderWatch(tmp_path, written.log):
            pass
    assert written.events == []


async def test_only_one_file_can_count(tmp_path: Path, written: LogLines) -> None:
    """Where one name counts, others wake nobody; a rename onto it, a write to it and its end do."""
    async with FolderWatch(tmp_path, written.log, only={"checkpoint"}) as watch:
        waiting = asyncio.ensure_future(_wait(watch))
        (tmp_path / "other").touch()
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        (tmp_path / "other").rename(tmp_path / "checkpoint")
        assert await waiting < LOOK_ANYWAY_SECONDS / 2
        (tmp_path / "checkpoint").write_text("content")
        assert await _wait(watch) < LOOK_ANYWAY_SECONDS / 2
        (tmp_path / "checkpoint").unlink()
        assert await _wait(watch) < LOOK_ANYWAY_SECONDS / 2


@pytest.mark.parametrize("name", ["one.sock", "two.sock"])
async def test_several_files_can_count(tmp_path: Path, written: LogLines, name: str) -> None:
    """Where several names count, each of them wakes who waits, and another wakes nobody."""
    async with FolderWatch(tmp_path, written.log, only={"one.sock", "two.sock"}) as watch:
        waiting = asyncio.ensure_future(_wait(watch))
        (tmp_path / "checkpoint").touch()
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        (tmp_path / name).touch()
        assert await waiting < LOOK_ANYWAY_SECONDS / 2
