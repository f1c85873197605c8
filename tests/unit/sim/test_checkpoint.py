"""The checkpoint's form on disk."""

from pathlib import Path

import msgspec

from railside_proto.pb.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse
from railside_sim.checkpoint import Kept, read, write
from railside_sim.pod_devices import NO_NODE, Dealt, Entry


def entry() -> Entry:
    answer = ContainerAllocateResponse(envs={"A": "b"})
    dealt = Dealt(by_node={0: ("x", "y"), NO_NODE: ("z",)}, answer=answer)
    return Entry(uid="u", container="c", resource="a/b", dealt=dealt)


def test_the_form_is_the_real_ones(tmp_path: Path) -> None:
    """Names of fields, node numbers as text, and the answer as base64 of the message."""
    write(tmp_path / "file", [entry()], {"a/b": ["y"], "c/d": []})
    data = msgspec.json.decode((tmp_path / "file").read_bytes())
    assert data == {
        "Data": {
            "PodDeviceEntries": [
                {
                    "PodUID": "u",
                    "ContainerName": "c",
                    "ResourceName": "a/b",
                    "DeviceIDs": {"0": ["x", "y"], "-1": ["z"]},
                    "AllocResp": "CgYKAUESAWI=",
                },
            ],
            "RegisteredDevices": {"a/b": ["y"], "c/d": []},
        },
        "Checksum": 0,
    }
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_nothing_dealt_is_null(tmp_path: Path) -> None:
    """Without entries the list is null, as Go writes an empty one that was never made."""
    write(tmp_path / "file", [], {})
    assert b'"PodDeviceEntries":null' in (tmp_path / "file").read_bytes()


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    """What a kubelet wrote its successor finds; a torn or missing file is nothing at all."""
    write(tmp_path / "file", [entry()], {"a/b": ["y"]})
    assert read(tmp_path / "file") == Kept(entries=(entry(),), registered={"a/b": ["y"]})
    (tmp_path / "torn").write_bytes(b"{")
    assert read(tmp_path / "torn") == read(tmp_path / "missing") == Kept()
