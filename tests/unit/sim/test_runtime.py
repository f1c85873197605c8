"""The runtime's walk from an Allocate answer to the nodes in a container."""

from pathlib import Path

import pytest

from railside_proto.machine import DeviceNode
from railside_proto.pb.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse, DeviceSpec, Mount
from railside_sim.runtime import CannotCreate, Container, create_container
from railside_sim.stand_in_nodes import StandInNodes

NODES = StandInNodes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "generation/deep").mkdir(parents=True)
    for path, minor in (("generation/uverbs2", 194), ("generation/deep/uverbs3", 195)):
        NODES.make(tmp_path / path, DeviceNode(name=Path(path).name, major=231, minor=minor))
    (tmp_path / "generation/note").write_text("no node")
    (tmp_path / "generation/uverbs9").symlink_to("uverbs2")
    (tmp_path / "generation/shallow").symlink_to("deep")
    (tmp_path / "ib").symlink_to("generation")
    return tmp_path


def create(host_path: Path, container_path: str = "/dev/infiniband") -> Container | CannotCreate:
    spec = DeviceSpec(host_path=str(host_path), container_path=container_path, permissions="rw")
    mount = Mount(host_path="/h", container_path="/c", read_only=True)
    answer = ContainerAllocateResponse(devices=[spec], mounts=[mount], envs={"A": "b"})
    return create_container(answer, NODES.read)


def paths(made: Container | CannotCreate) -> list[str]:
    assert isinstance(made, Container)
    return [device.path for device in made.devices]


def test_a_folder_is_walked_through_its_link(folder: Path) -> None:
    """A host path that links to a folder gives its nodes; links and plain files inside are skipped in silence."""
    assert paths(create(folder / "ib")) == ["/dev/infiniband/deep/uverbs3", "/dev/infiniband/uverbs2"]


def test_another_spelling_of_the_path_is_the_same_place(folder: Path) -> None:
    """Two pools spell the container's path differently and mean the same folder."""
    assert paths(create(folder / "generation/deep", "/dev/infiniband/.")) == ["/dev/infiniband/uverbs3"]


def test_a_single_node_is_taken_as_it_is(folder: Path) -> None:
    """A host path that is a node stands at exactly the container path; mounts and environment come along."""
    made = create(folder / "ib/uverbs2", "/dev/infiniband/uverbs7")
    assert paths(made) == ["/dev/infiniband/uverbs7"]
    assert isinstance(made, Container)
    assert (made.devices[0].node.minor, made.mounts[0].read_only, made.envs) == (194, True, {"A": "b"})


def test_a_missing_path_is_a_sentence(folder: Path) -> None:
    """A path that is not there, or a dangling link, refuses the container with the path in the text."""
    gone = folder / "gone"
    expected = f"failed to generate spec: lstat {gone}: no such file or directory"
    assert create(gone) == CannotCreate(expected)
    (folder / "dangling").symlink_to("gone")
    assert isinstance(create(folder / "dangling"), CannotCreate)


def test_an_empty_folder_is_a_container_without_device(folder: Path) -> None:
    """An empty folder is no error to a runtime: the container starts and has nothing."""
    (folder / "empty").mkdir()
    assert paths(create(folder / "empty")) == []


def test_a_plain_file_is_no_device(folder: Path) -> None:
    """A single host path that is not a node refuses the container."""
    note = folder / "generation/note"
    assert create(note) == CannotCreate(f"failed to generate spec: not a device node: {note.resolve()}")
