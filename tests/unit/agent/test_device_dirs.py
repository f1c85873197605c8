import os
from pathlib import Path

import msgspec
import pytest
from tests.unit.builders import RDMA_CM, hca, machine

from railside_agent.binding import Bound
from railside_agent.container_edits import Contents, allocation_key, contents
from railside_agent.device_dirs import DeviceDirectories
from railside_proto.machine import DeviceNode, Machine
from railside_proto.pool import Container, Pool
from railside_sim.stand_in_nodes import StandInNodes


def _key(*seats: str) -> str:
    return allocation_key(Pool(), seats)


def _contents(number: int, *seats: str) -> Contents:
    bound = Bound(seats=seats, hcas=(hca(number),))
    return contents(bound, machine(rdma_cm=RDMA_CM))


class _FullDisk(StandInNodes):
    """Makes the first node and no other."""

    def make(self, path: Path, node: DeviceNode) -> None:
        if list(path.parent.iterdir()):
            raise OSError(28, "No space left on device", str(path))
        super().make(path, node)


@pytest.fixture
def directories(tmp_path: Path) -> DeviceDirectories:
    return DeviceDirectories(tmp_path, StandInNodes())


def _folder(root: Path, *seats: str) -> Path:
    return root / "run/railside/alloc" / _key(*seats)


def _nodes(folder: Path) -> list[str]:
    return sorted(entry.name for entry in (folder / "ib").iterdir())


def test_a_dealt_container_is_unbound(directories: DeviceDirectories, tmp_path: Path) -> None:
    """After Allocate the info folder is there and the link is not: a start without PreStart fails closed."""
    directories.prepare(_key("s0"), ("s0",))
    folder = _folder(tmp_path, "s0")
    assert [entry.name for entry in folder.iterdir()] == ["info"]


def test_a_started_container_finds_everything(directories: DeviceDirectories, tmp_path: Path) -> None:
    """After PreStart the link leads to the nodes, and the files are written."""
    directories.prepare(_key("s0"), ("s0",))
    directories.lay_out(_key("s0"), _contents(0, "s0"))
    folder = _folder(tmp_path, "s0")
    assert _nodes(folder) == ["rdma_cm", "uverbs0"]
    assert hca(0).uverbs == StandInNodes().read(folder / "ib/uverbs0")
    assert sorted(entry.name for entry in (folder / "info").iterdir()) == ["allocation.json", "hcas", "nccl.conf"]


def test_the_link_is_relative(directories: DeviceDirectories, tmp_path: Path) -> None:
    """The link holds under whatever prefix the runtime sees the tree."""
    directories.lay_out(_key("s0"), _contents(0, "s0"))
    assert "/" not in str((_folder(tmp_path, "s0") / "ib").readlink())


def test_folders_can_be_entered_by_everybody(directories: DeviceDirectories, tmp_path: Path) -> None:
    """A container that does not run as root can list its devices."""
    directories.lay_out(_key("s0"), _contents(0, "s0"))
    assert (_folder(tmp_path, "s0") / "ib").stat().st_mode & 0o777 == 0o755


def test_files_can_be_read_by_everybody_under_any_umask(directories: DeviceDirectories, tmp_path: Path) -> None:
    """A container that does not run as root can read what it was given, however the agent was started."""
    before = os.umask(0o077)
    try:
        directories.lay_out(_key("s0"), _contents(0, "s0"))
    finally:
        os.umask(before)
    info = _folder(tmp_path, "s0") / "info"
    modes = {entry.name: entry.stat().st_mode & 0o777 for entry in (info, *info.iterdir())}
    assert modes == {"info": 0o755, "allocation.json": 0o644, "hcas": 0o644, "nccl.conf": 0o644}


def test_a_restart_replaces_the_whole(directories: DeviceDirectories, tmp_path: Path) -> None:
    """A container that starts again on another HCA finds that one alone, and nothing of before stays."""
    directories.lay_out(_key("s0"), _contents(0, "s0"))
    directories.lay_out(_key("s0"), _contents(5, "s0"))
    folder = _folder(tmp_path, "s0")
    assert _nodes(folder) == ["rdma_cm", "uverbs5"]


def test_what_earlier_starts_left_goes_after_a_while(directories: DeviceDirectories, tmp_path: Path) -> None:
    """A start's directory stays for a runtime that may still walk it, and is gone a minute later."""
    folder = _folder(tmp_path, "s0")
    for number in range(3):
        directories.lay_out(_key("s0"), _contents(number, "s0"))
    young = len(list(folder.glob("start-*")))
    for generation in folder.glob("start-*"):
        os.utime(generation, (0, 0))
    directories.lay_out(_key("s0"), _contents(3, "s0"))
    assert (young, len(list(folder.glob("start-*")))) == (3, 1)


@pytest.mark.parametrize(
    ("now", "withdrawn"),
    [
        pytest.param(machine(hca(1), rdma_cm=RDMA_CM), [], id="as-it-was"),
        pytest.param(
            machine(hca(1), rdma_cm=msgspec.structs.replace(RDMA_CM, minor=57)),
            [Container(seats=("s0",), hcas=("0000:01:00.0",))],
            id="other-connection-manager",
        ),
        pytest.param(machine(), [Container(seats=("s0",), hcas=("0000:01:00.0",))], id="gone"),
        pytest.param(
            machine(hca(1, uverbs=hca(2).uverbs), hca(2, uverbs=hca(1).uverbs)),
            [Container(seats=("s0",), hcas=("0000:01:00.0",))],
            id="renumbered",
        ),
    ],
)
def test_what_is_no_longer_true_is_withdrawn(
    directories: DeviceDirectories, tmp_path: Path, now: Machine, withdrawn: list[Container]
) -> None:
    """A start without PreStart must not find an HCA under a name that means another by now (law 9)."""
    directories.lay_out(_key("s0"), _contents(1, "s0"))
    assert withdrawn == directories.withdraw_untrue(now)
    assert (not withdrawn) == (_folder(tmp_path, "s0") / "ib").exists()


def test_one_of_two_that_is_no_longer_true_withdraws_both(directories: DeviceDirectories, tmp_path: Path) -> None:
    """A container with two HCAs starts with both as they are, or not at all (law 9)."""
    bound = Bound(seats=("s0", "s1"), hcas=(hca(1), hca(2)))
    directories.lay_out(_key("s0", "s1"), contents(bound, machine(rdma_cm=RDMA_CM)))
    directories.withdraw_untrue(machine(hca(1)))
    assert not (_folder(tmp_path, "s0", "s1") / "ib").exists()


def test_a_folder_that_nobody_can_read_is_withdrawn(directories: DeviceDirectories, tmp_path: Path) -> None:
    """A link beside a torn account of its seats may be anybody's, and goes with the next dealing."""
    directories.lay_out(_key("s0"), _contents(1, "s0"))
    (_folder(tmp_path, "s0") / "info/allocation.json").write_text("{")
    directories.prepare(_key("s1"), ("s1",))
    assert not _folder(tmp_path, "s0").exists()


def test_a_failure_leaves_no_link(directories: DeviceDirectories, tmp_path: Path) -> None:
    """Where a node cannot be made the start fails closed, even if an earlier start had succeeded."""
    directories.lay_out(_key("s0"), _contents(0, "s0"))
    with pytest.raises(OSError, match="No space left"):
        DeviceDirectories(tmp_path, _FullDisk()).lay_out(_key("s0"), _contents(1, "s0"))
    assert not os.path.lexists(_folder(tmp_path, "s0") / "ib")


def test_a_success_sweeps_up_after_failures(directories: DeviceDirectories, tmp_path: Path) -> None:
    """What failed starts left goes with the first that succeeds."""
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            DeviceDirectories(tmp_path, _FullDisk()).lay_out(_key("s0"), _contents(1, "s0"))
    directories.lay_out(_key("s0"), _contents(0, "s0"))
    assert len(list(_folder(tmp_path, "s0").iterdir())) == 3


@pytest.mark.parametrize(
    ("dealt", "expected"),
    [
        pytest.param(("s0",), [("s2",)], id="one-seat-of-an-earlier-pod"),
        pytest.param(("s1", "s3"), [("s2",)], id="overlapping"),
        pytest.param(("s0", "s1"), [("s2",)], id="the-same-seats"),
        pytest.param(("s3",), [("s0", "s1"), ("s2",)], id="none-of-theirs"),
    ],
)
def test_dealt_seats_are_withdrawn_from_who_held_them(
    directories: DeviceDirectories, dealt: tuple[str, ...], expected: list[tuple[str, ...]]
) -> None:
    """Seats that are dealt again had a holder that is gone: its directories go, those of others stay."""
    directories.lay_out(_key("s0", "s1"), _contents(0, "s0", "s1"))
    directories.lay_out(_key("s2"), _contents(2, "s2"))
    directories.prepare(_key(*dealt), dealt)
    assert expected == sorted(container.seats for container in directories.containers())


def test_bound_containers_are_told_after_a_restart_of_the_agent(
    directories: DeviceDirectories, tmp_path: Path
) -> None:
    """The books are what lies on the disk."""
    directories.lay_out(_key("s0"), _contents(0, "s0"))
    directories.prepare(_key("s1"), ("s1",))
    expected = [Container(seats=("s0",), hcas=("0000:00:00.0",))]
    assert expected == list(DeviceDirectories(tmp_path, StandInNodes()).containers())


@pytest.mark.parametrize("content", [None, "torn"])
def test_a_folder_that_makes_no_sense_is_nobodys(
    directories: DeviceDirectories, tmp_path: Path, content: str | None
) -> None:
    """A missing or torn allocation.json is skipped and never an error."""
    directories.lay_out(_key("s0"), _contents(0, "s0"))
    file = _folder(tmp_path, "s0") / "info/allocation.json"
    file.unlink()
    if content:
        file.write_text(content)
    assert list(directories.containers()) == []


def test_a_machine_without_containers(directories: DeviceDirectories) -> None:
    """Before the first container there is no folder, and nobody is told of."""
    assert list(directories.containers()) == []
