"""Stand-ins for device nodes: what is made can be read, and nothing else passes for a node."""

from pathlib import Path

import pytest

from railside_proto.machine import DeviceNode
from railside_sim.stand_in_nodes import StandInNodes

NODE = DeviceNode(name="uverbs0", major=231, minor=192, mode=0o660, uid=0, gid=44)


def test_a_node_is_read_as_it_was_made(tmp_path: Path) -> None:
    """Name, numbers, mode and owner survive."""
    StandInNodes().make(tmp_path / "uverbs0", NODE)
    assert (tmp_path / "uverbs0").read_text() == "c 231:192 0660 0 44\n"
    assert StandInNodes().read(tmp_path / "uverbs0") == NODE


def test_a_node_is_not_made_twice(tmp_path: Path) -> None:
    """A taken path is refused, as mknod does."""
    StandInNodes().make(tmp_path / "uverbs0", NODE)
    with pytest.raises(FileExistsError):
        StandInNodes().make(tmp_path / "uverbs0", NODE)


def test_other_things_are_no_nodes(tmp_path: Path) -> None:
    """Missing paths, folders, other text and links are not nodes."""
    StandInNodes().make(tmp_path / "uverbs0", NODE)
    (tmp_path / "link").symlink_to("uverbs0")
    (tmp_path / "text").write_bytes(b"c 231 \xff" * 40)
    assert all(StandInNodes().read(tmp_path / name) is None for name in ("gone", ".", "text", "link"))
