import os
import shutil
import time
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.situations import POOL, binding
from tests.unit.builders import RDMA_CM, hca, machine

from railside_agent.allocation_file import allocation_files
from railside_agent.binding import Bound
from railside_agent.container_edits import Contents, Style, allocation_key, contents
from railside_agent.container_start import ContainerStart
from railside_agent.device_dirs import DeviceDirectories
from railside_proto.machine import DeviceNode, Machine
from railside_proto.pool import Binding, Pool
from railside_sim.stand_in_nodes import StandInNodes

_OTHER_POOL = Pool(resource=f"example.com/{POOL.name}.y")


def _key(*seats: str) -> str:
    return allocation_key(POOL, seats)


def _laid(*seats: str, hcas: tuple[int, ...], pod: str | None = "p") -> tuple[Contents, Binding]:
    """What a start lays out, and what it is bound to."""
    bound = Bound(seats=seats, hcas=tuple(map(hca, hcas)), pod=pod)
    files = allocation_files(bound, ContainerStart(seats=seats, pod=pod))
    return contents(bound, machine(rdma_cm=RDMA_CM), Style(), files), bound.binding


def _lay_out(directories: DeviceDirectories, *seats: str, hcas: tuple[int, ...], pod: str | None = "p") -> None:
    directories.lay_out(_key(*seats), *_laid(*seats, hcas=hcas, pod=pod))


class _FullDisk(StandInNodes):
    """Makes the first node and no other."""

    def make(self, path: Path, node: DeviceNode) -> None:
        if list(path.parent.iterdir()):
            raise OSError(28, "No space left on device", str(path))
        super().make(path, node)


@pytest.fixture
def directories(tmp_path: Path) -> DeviceDirectories:
    return DeviceDirectories(tmp_path, StandInNodes(), POOL)


def _again(root: Path, pool: Pool = POOL) -> DeviceDirectories:
    """Those of an agent that was started anew."""
    return DeviceDirectories(root, StandInNodes(), pool)


def _make_old(folder: Path) -> None:
    long_ago = time.time() - 61
    os.utime(folder, (long_ago, long_ago))


def _folder(root: Path, *seats: str) -> Path:
    return root / "run/railside/alloc" / _key(*seats)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


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
    _lay_out(directories, "s0", hcas=(0,))
    folder = _folder(tmp_path, "s0")
    assert _nodes(folder) == ["rdma_cm", "uverbs0"]
    assert hca(0).uverbs == StandInNodes().read(folder / "ib/uverbs0")
    assert sorted(entry.name for entry in (folder / "info").iterdir()) == ["allocation.json", "hcas", "nccl.conf"]


def test_the_link_is_relative(directories: DeviceDirectories, tmp_path: Path) -> None:
    """The link holds under whatever prefix the runtime sees the tree."""
    _lay_out(directories, "s0", hcas=(0,))
    assert "/" not in str((_folder(tmp_path, "s0") / "ib").readlink())


def test_folders_can_be_entered_by_everybody(directories: DeviceDirectories, tmp_path: Path) -> None:
    """A container that does not run as root can list its devices."""
    _lay_out(directories, "s0", hcas=(0,))
    assert (_folder(tmp_path, "s0") / "ib").stat().st_mode & 0o777 == 0o755


def test_files_can_be_read_by_everybody_under_any_umask(directories: DeviceDirectories, tmp_path: Path) -> None:
    """A container that does not run as root can read what it was given, however the agent was started."""
    before = os.umask(0o077)
    try:
        _lay_out(directories, "s0", hcas=(0,))
    finally:
        os.umask(before)
    info = _folder(tmp_path, "s0") / "info"
    modes = {entry.name: entry.stat().st_mode & 0o777 for entry in (info, *info.iterdir())}
    assert modes == {"info": 0o755, "allocation.json": 0o644, "hcas": 0o644, "nccl.conf": 0o644}


def test_a_restart_replaces_the_whole(directories: DeviceDirectories, tmp_path: Path) -> None:
    """A container that starts again on another HCA finds that one alone, and nothing of before stays."""
    _lay_out(directories, "s0", hcas=(0,))
    _lay_out(directories, "s0", hcas=(5,))
    folder = _folder(tmp_path, "s0")
    assert _nodes(folder) == ["rdma_cm", "uverbs5"]


def test_what_earlier_starts_left_goes_after_a_while(directories: DeviceDirectories, tmp_path: Path) -> None:
    """A start's directory stays for a runtime that may still walk it, and is gone a minute later."""
    folder = _folder(tmp_path, "s0")
    for number in range(3):
        _lay_out(directories, "s0", hcas=(number,))
    young = len(list(folder.glob("start-*")))
    for generation in folder.glob("start-*"):
        os.utime(generation, (0, 0))
    _lay_out(directories, "s0", hcas=(3,))
    assert (young, len(list(folder.glob("start-*")))) == (3, 1)


@pytest.mark.parametrize(
    ("now", "withdrawn"),
    [
        pytest.param(machine(hca(1), rdma_cm=RDMA_CM), [], id="as-it-was"),
        pytest.param(
            machine(hca(1), rdma_cm=msgspec.structs.replace(RDMA_CM, minor=57)),
            [binding("p", s0=1)],
            id="other-connection-manager",
        ),
        pytest.param(machine(), [binding("p", s0=1)], id="gone"),
        pytest.param(
            machine(hca(1, uverbs=hca(2).uverbs), hca(2, uverbs=hca(1).uverbs)),
            [binding("p", s0=1)],
            id="renumbered",
        ),
    ],
)
def test_what_is_no_longer_true_is_known(
    directories: DeviceDirectories, tmp_path: Path, now: Machine, withdrawn: list[Binding]
) -> None:
    """Who lays out an HCA under a name that means another by now is told of, and nothing is changed (law 9)."""
    _lay_out(directories, "s0", hcas=(1,))
    assert withdrawn == list(directories.untrue(now).values())
    assert (_folder(tmp_path, "s0") / "ib").exists()


def test_one_of_two_that_is_no_longer_true_makes_both_untrue(directories: DeviceDirectories) -> None:
    """A container with two HCAs starts with both as they are, or not at all (law 9)."""
    _lay_out(directories, "s0", "s1", hcas=(1, 2))
    assert {_key("s0", "s1"): binding("p", s0=1, s1=2)} == directories.untrue(machine(hca(1)))


def test_what_no_start_finds_is_not_untrue(directories: DeviceDirectories) -> None:
    """What was closed need not be taken away again, whatever has become of its HCA."""
    _lay_out(directories, "s0", hcas=(1,))
    directories.close(_key("s0"))
    assert directories.untrue(machine()) == {}


def test_a_failure_leaves_no_link(directories: DeviceDirectories, tmp_path: Path) -> None:
    """Where a node cannot be made the start fails closed, even if an earlier start had succeeded."""
    _lay_out(directories, "s0", hcas=(0,))
    with pytest.raises(OSError, match="No space left"):
        _lay_out(DeviceDirectories(tmp_path, _FullDisk(), POOL), "s0", hcas=(1,))
    assert not os.path.lexists(_folder(tmp_path, "s0") / "ib")


def test_a_start_that_fails_frees_nothing(directories: DeviceDirectories, tmp_path: Path) -> None:
    """Where nothing can be laid out, what was bound before counts on: its container may be running (law 7)."""
    _lay_out(directories, "s0", hcas=(0,))
    full = DeviceDirectories(tmp_path, _FullDisk(), POOL)
    with pytest.raises(OSError, match="No space left"):
        _lay_out(full, "s0", hcas=(1,))
    assert directories.bindings() == full.bindings() == _again(tmp_path).bindings()


def test_a_success_sweeps_up_after_failures(directories: DeviceDirectories, tmp_path: Path) -> None:
    """What failed starts left goes with the first that succeeds."""
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            _lay_out(DeviceDirectories(tmp_path, _FullDisk(), POOL), "s0", hcas=(1,))
    _lay_out(directories, "s0", hcas=(0,))
    assert len(list(_folder(tmp_path, "s0").iterdir())) == 3


@pytest.mark.parametrize(
    ("dealt", "found"),
    [
        pytest.param(("s0",), (False, True), id="one-seat-of-an-earlier-pod"),
        pytest.param(("s1", "s3"), (False, True), id="overlapping"),
        pytest.param(("s0", "s1"), (False, True), id="the-same-seats"),
        pytest.param(("s3",), (True, True), id="none-of-theirs"),
    ],
)
def test_dealt_seats_are_closed_to_who_held_them(
    directories: DeviceDirectories, tmp_path: Path, dealt: tuple[str, ...], found: tuple[bool, bool]
) -> None:
    """Whoever has a seat that is dealt again finds nothing at a start, and keeps its HCAs from all others.

    The kubelet may have dealt a seat of a living pod: only its checkpoint tells that a holder is gone.
    """
    _lay_out(directories, "s0", "s1", hcas=(0, 1))
    _lay_out(directories, "s2", hcas=(2,))
    directories.prepare(_key(*dealt), dealt)
    assert found == tuple((_folder(tmp_path, *seats) / "ib").exists() for seats in (("s0", "s1"), ("s2",)))
    assert (binding("p", s0=0, s1=1), binding("p", s2=2)) == directories.bindings()


def test_bindings_survive_a_restart_of_the_agent(directories: DeviceDirectories, tmp_path: Path) -> None:
    """The books are what lies on the disk: seats, HCAs and the pod that they are locked to (law 6)."""
    _lay_out(directories, "s0", hcas=(0,))
    _lay_out(directories, "s4", hcas=(4,), pod=None)
    directories.prepare(_key("s1"), ("s1",))
    found = sorted(_again(tmp_path).bindings(), key=lambda one: one.seats)
    assert [binding("p", s0=0), binding(None, s4=4)] == found


def test_bindings_of_seats_that_were_dealt_again_survive_too(
    directories: DeviceDirectories, tmp_path: Path
) -> None:
    """Who was bound when its seat was dealt again is so to the next agent, too (law 6)."""
    _lay_out(directories, "s0", hcas=(1,))
    directories.prepare(_key("s0"), ("s0",))
    assert ((binding("p", s0=1),), (binding("p", s0=1),)) == (directories.bindings(), _again(tmp_path).bindings())


def test_what_was_refused_is_forgotten(directories: DeviceDirectories, tmp_path: Path) -> None:
    """After a refused start nothing is bound and nothing is found, also by the next agent."""
    _lay_out(directories, "s0", hcas=(1,))
    directories.withdraw(_key("s0"))
    assert (
        directories.bindings(),
        _again(tmp_path).bindings(),
        (_folder(tmp_path, "s0") / "ib").is_symlink(),
    ) == ((), (), False)


def test_what_is_closed_is_not_forgotten(directories: DeviceDirectories, tmp_path: Path) -> None:
    """A closed container finds nothing until its next start, and is bound to what it was."""
    _lay_out(directories, "s0", hcas=(1,))
    directories.close(_key("s0"))
    assert ((binding("p", s0=1),), False) == (
        _again(tmp_path).bindings(),
        (_folder(tmp_path, "s0") / "ib").is_symlink(),
    )


def test_what_is_not_there_can_be_withdrawn(directories: DeviceDirectories) -> None:
    """A start that is refused before it was ever bound has nothing to take away."""
    directories.withdraw(_key("s0"))
    directories.close(_key("s0"))
    assert directories.bindings() == ()


def test_what_is_known_is_what_was_last_looked_at(directories: DeviceDirectories, tmp_path: Path) -> None:
    """Who must not wait for the disk gets what was read, and nothing before that."""
    _lay_out(directories, "s0", hcas=(1,))
    fresh = _again(tmp_path)
    before = fresh.known
    fresh.bindings()
    assert ((), (binding("p", s0=1),)) == (before, fresh.known)


def test_two_pools_do_not_see_each_other(directories: DeviceDirectories, tmp_path: Path) -> None:
    """Bindings and folders of another pool are neither told, nor withdrawn, nor collected."""
    other = _again(tmp_path, _OTHER_POOL)
    key = allocation_key(_OTHER_POOL, ("s0",))
    other.lay_out(key, *_laid("s0", hcas=(7,), pod="q"))
    _lay_out(directories, "s0", hcas=(1,))
    directories.prepare(_key("s0"), ("s0",))
    _make_old(tmp_path / "run/railside/alloc" / key)
    assert (directories.untrue(machine()), directories.collect(())) == ({}, 0)
    directories.withdraw(_key("s0"))
    assert (_again(tmp_path, _OTHER_POOL).bindings(), directories.bindings()) == ((binding("q", s0=7),), ())
    assert (tmp_path / "run/railside/alloc" / key / "ib").is_symlink()
    assert (tmp_path / "run/railside/alloc" / key / "ib/uverbs7").exists()


@pytest.mark.parametrize(
    ("old", "kept", "gone"),
    [
        pytest.param(True, False, True, id="old-and-nobodys"),
        pytest.param(False, False, False, id="young"),
        pytest.param(True, True, False, id="kept"),
    ],
)
def test_folders_of_ended_containers_are_collected(
    directories: DeviceDirectories, tmp_path: Path, *, old: bool, kept: bool, gone: bool
) -> None:
    """A folder goes when no container has it and it was not touched a moment ago."""
    _lay_out(directories, "s0", hcas=(0,))
    if old:
        _make_old(_folder(tmp_path, "s0"))
    count = directories.collect({_key("s0")} if kept else ())
    assert (int(gone), not gone, not gone) == (
        count,
        _folder(tmp_path, "s0").exists(),
        bool(directories.bindings()),
    )


@pytest.mark.parametrize("content", [None, "torn"])
def test_a_folder_that_makes_no_sense_is_nobodys(
    directories: DeviceDirectories, tmp_path: Path, content: str | None
) -> None:
    """After a restart a link beside a missing or torn account is taken away: nobody can tell whose it is."""
    _lay_out(directories, "s0", hcas=(0,))
    file = _folder(tmp_path, "s0") / "info/allocation.json"
    file.unlink()
    if content:
        file.write_text(content)
    assert (_again(tmp_path).bindings(), (_folder(tmp_path, "s0") / "ib").is_symlink()) == ((), False)


@pytest.mark.parametrize("lost", ["info/allocation.json", "."])
def test_a_lost_account_is_known_from_the_copy(directories: DeviceDirectories, tmp_path: Path, lost: str) -> None:
    """A container whose file or whole folder was deleted runs on with its HCA, and no start finds anything."""
    _lay_out(directories, "s0", hcas=(0,))
    (bound,) = directories.bindings()
    _delete(_folder(tmp_path, "s0") / lost)
    again = _again(tmp_path)
    again.recall({_key("s0"): bound})
    assert (again.known, (_folder(tmp_path, "s0") / "ib").is_symlink()) == ((bound,), False)


def test_what_lies_in_a_folder_counts_more_than_the_copy(directories: DeviceDirectories, tmp_path: Path) -> None:
    """The copy is written behind the folder, and may be that of the container's start before."""
    _lay_out(directories, "s0", hcas=(0,))
    again = _again(tmp_path)
    again.recall({_key("s0"): binding("p", s0=1)})
    assert again.known == (binding("p", s0=0),)


def test_a_lost_folder_is_forgotten_with_its_container(directories: DeviceDirectories) -> None:
    """What is bound by the copy alone goes when the kubelet does not name its seats any more."""
    directories.recall({_key("s0"): binding("p", s0=0), _key("s1"): binding("q", s1=1)})
    directories.collect({_key("s1")})
    assert directories.known == (binding("q", s1=1),)


def test_a_machine_without_containers(directories: DeviceDirectories) -> None:
    """Before the first container there is no folder, and nobody is told of."""
    assert (directories.bindings(), directories.known, directories.collect(())) == ((), (), 0)
