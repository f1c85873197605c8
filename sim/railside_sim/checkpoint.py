"""The kubelet's checkpoint: what it has dealt to whom, in the form of the real one.

It answers for the form (pkg/kubelet/cm/devicemanager/checkpoint), whose checksum only the real kubelet can make:
ours is 0, and none is looked at. It must not decide when it is written.
"""

import base64
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from railside_proto.pb.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse
from railside_sim.pod_devices import Dealt, Entry

_MODE: Final = 0o600


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What survives a restart: who holds what, and the healthy ids by resource."""

    entries: tuple[Entry, ...] = ()
    registered: dict[str, list[str]] = {}


class _Entry(msgspec.Struct, rename="pascal"):
    pod_uid: str = msgspec.field(name="PodUID")
    container_name: str
    resource_name: str
    device_ids: dict[str, list[str]] | list[str] | None = msgspec.field(name="DeviceIDs")
    alloc_resp: str


class _Data(msgspec.Struct, rename="pascal"):
    pod_device_entries: list[_Entry] | None = None
    registered_devices: dict[str, list[str] | None] | None = None


class _File(msgspec.Struct, rename="pascal"):
    data: _Data
    checksum: int = 0


def write(
    path: Path, entries: Iterable[Entry], registered: Mapping[str, Iterable[str]], *, by_node: bool = True
) -> None:
    """Writes the file as the kubelet does: a new one, renamed onto the old. Raises OSError.

    Until 1.19 ids stand in one list, and since then by NUMA node.
    """
    lists: dict[str, list[str] | None] = {resource: list(ids) for resource, ids in registered.items()}
    written = [_written(entry, by_node=by_node) for entry in entries]
    data = _Data(pod_device_entries=written or None, registered_devices=lists)
    new = path.with_name(f".{path.name}")
    new.touch(mode=_MODE)
    new.write_bytes(msgspec.json.encode(_File(data=data)))
    new.replace(path)


def read(path: Path) -> Kept:
    """What the file says; nothing where it is missing or makes no sense, as the kubelet goes on all the same."""
    try:
        data = msgspec.json.decode(path.read_bytes(), type=_File).data
    except (OSError, msgspec.MsgspecError):
        return Kept()
    registered = {resource: ids or [] for resource, ids in (data.registered_devices or {}).items()}
    return Kept(entries=tuple(map(_read, data.pod_device_entries or [])), registered=registered)


def _written(entry: Entry, *, by_node: bool) -> _Entry:
    nodes = {str(node): list(ids) for node, ids in entry.dealt.by_node.items()}
    return _Entry(
        pod_uid=entry.uid,
        container_name=entry.container,
        resource_name=entry.resource,
        device_ids=nodes if by_node else sorted(entry.dealt.ids),
        alloc_resp=base64.b64encode(entry.dealt.answer.SerializeToString()).decode(),
    )


def _read(entry: _Entry) -> Entry:
    found = entry.device_ids or {}
    # A list says nothing of NUMA nodes: its readers take node 0 (checkpoint: DataV1.GetDataInLatestFormat).
    nodes = {"0": found} if isinstance(found, list) else found
    by_node = {int(node): tuple(ids) for node, ids in nodes.items()}
    answer = ContainerAllocateResponse.FromString(base64.b64decode(entry.alloc_resp))
    dealt = Dealt(by_node=by_node, answer=answer)
    return Entry(uid=entry.pod_uid, container=entry.container_name, resource=entry.resource_name, dealt=dealt)
