import asyncio
import operator
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.unit.builders import LogLines
from tests.unit.running import running

from railside_agent.checkpoint_watch import CheckpointWatch
from railside_agent.folder_watch import LOOK_ANYWAY_SECONDS
from railside_proto.names import DEVICE_PLUGINS, KUBELET_CHECKPOINT

_TOO_LONG_SECONDS = LOOK_ANYWAY_SECONDS / 2
"""By then it was an event, and not the look that is due anyway."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / DEVICE_PLUGINS).mkdir()
    return tmp_path / DEVICE_PLUGINS


@pytest.fixture
def watch(tmp_path: Path, written: LogLines) -> CheckpointWatch:
    return CheckpointWatch(tmp_path, written.log, largest_bytes=1000)


def _rename_into_place(folder: Path, content: bytes) -> None:
    """Write as the kubelet does."""
    temporary = folder / ".kubelet_internal_checkpoint123"
    temporary.write_bytes(content)
    temporary.rename(folder / KUBELET_CHECKPOINT)


async def test_each_new_checkpoint_is_told(folder: Path, watch: CheckpointWatch) -> None:
    """A checkpoint that the kubelet renames into place is read at that event, the first and every later one."""
    async with running(watch), asyncio.timeout(_TOO_LONG_SECONDS):
        await watch.latest.until(lambda content: content == b"")
        for content in (b"one", b"two", b"three"):
            await asyncio.to_thread(_rename_into_place, folder, content)
            await watch.latest.until(partial(operator.eq, content))


async def test_a_checkpoint_written_in_place_is_told(folder: Path, watch: CheckpointWatch) -> None:
    """A file that is written where it stands is read when its writer closes it."""
    await asyncio.to_thread(_rename_into_place, folder, b"one")
    async with running(watch), asyncio.timeout(_TOO_LONG_SECONDS):
        await watch.latest.until(lambda content: content == b"one")
        await asyncio.to_thread((folder / KUBELET_CHECKPOINT).write_bytes, b"two")
        await watch.latest.until(lambda content: content == b"two")


async def test_no_file_is_nothing_dealt(folder: Path, watch: CheckpointWatch) -> None:
    """Without a file, or without its folder, nothing was ever dealt: that is empty, and not unknown."""
    before = watch.latest.value
    now = await watch.read_now()
    await asyncio.to_thread(folder.rmdir)
    assert (before, now, await watch.read_now(), watch.problem.value) == (None, b"", b"", None)


async def test_a_file_that_is_taken_away_is_nothing_dealt(folder: Path, watch: CheckpointWatch) -> None:
    """An administrator who deletes the checkpoint makes the kubelet forget, and us with it."""
    await asyncio.to_thread(_rename_into_place, folder, b"one")
    async with running(watch), asyncio.timeout(_TOO_LONG_SECONDS):
        await watch.latest.until(lambda content: content == b"one")
        await asyncio.to_thread((folder / KUBELET_CHECKPOINT).unlink)
        await watch.latest.until(lambda content: content == b"")


def _torn(path: Path) -> None:
    path.write_bytes(b"")


def _huge(path: Path) -> None:
    path.write_bytes(bytes(1001))


def _pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def _loop(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path)


@pytest.mark.parametrize("spoil", [_torn, _huge, _pipe, _directory, _loop])
@pytest.mark.parametrize("known", [b"one", None])
async def test_what_cannot_be_read_changes_nothing(
    folder: Path, watch: CheckpointWatch, written: LogLines, known: bytes | None, spoil: Callable[[Path], None]
) -> None:
    """A file that is empty, huge, no file or unreadable leaves what was known, and is told once."""
    path = folder / KUBELET_CHECKPOINT
    if known is not None:
        await asyncio.to_thread(path.write_bytes, known)
        await watch.read_now()
    await asyncio.to_thread(spoil, path)
    for _ in range(2):
        assert await watch.read_now() == known
    assert KUBELET_CHECKPOINT in str(watch.problem.value)
    assert written.events == ["the kubelet's checkpoint could not be read"]


async def test_a_good_read_ends_the_problem(folder: Path, watch: CheckpointWatch) -> None:
    """When the file can be read again it is believed again."""
    await asyncio.to_thread(_torn, folder / KUBELET_CHECKPOINT)
    await watch.read_now()
    before = watch.problem.value
    assert before is not None
    await asyncio.to_thread(_rename_into_place, folder, b"two")
    again = await watch.read_now()
    after = watch.problem.value
    assert (again, after) == (b"two", None)


async def test_a_disk_that_hangs_costs_the_deadline(tmp_path: Path, folder: Path, written: LogLines) -> None:
    """Whoever asks gets the last good content after the deadline, and the problem is told."""
    watch = CheckpointWatch(tmp_path, written.log, deadline_seconds=0)
    await asyncio.to_thread(_rename_into_place, folder, b"one")
    assert await watch.read_now() is None
    assert watch.problem.value == "the disk did not answer within 0 s"


class _SlowDisk(CheckpointWatch):
    """Hangs until it is released."""

    released: threading.Event

    def _read(self) -> bytes:
        self.released.wait(5)
        return super()._read()


@pytest.mark.looptime
async def test_a_disk_that_hangs_can_be_waited_for(tmp_path: Path, folder: Path, written: LogLines) -> None:
    """Who must know gets the content when the disk answers, however long that takes, and not before (law 6)."""
    watch = _SlowDisk(tmp_path, written.log)
    watch.released = threading.Event()
    await asyncio.to_thread(_rename_into_place, folder, b"one")
    asyncio.get_running_loop().call_later(60, watch.released.set)
    assert await watch.read_patiently() == b"one"
