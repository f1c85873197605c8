"""Who holds which ids, by the kubelet's own checkpoint: the one account that is whole right after its start.

It must not read files. The checkpoint's form is the kubelet's own affair and may change with its version: what
makes no sense is None, never a guess that nothing is held.
"""

import base64
import re
from typing import Final

import msgspec

from railside_agent.seat_names import node_of, zone_of
from railside_proto.decoding import UNDECODABLE

_NODE: Final = re.compile(r"[0-9]{1,5}")


class HeldId(msgspec.Struct, frozen=True, kw_only=True):
    """One id in a container's hands, and where the kubelet believes it to be; nowhere if it carried no hint."""

    id: str
    numa_nodes: tuple[int, ...] = ()


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What one container was dealt of one resource. Entries of ended pods stay until the next allocation."""

    pod: str
    """The pod's UID."""
    container: str
    resource: str
    ids: tuple[HeldId, ...]
    answer: bytes = b""
    """The plugin's answer to Allocate, which the kubelet replays at each start of the container."""

    @property
    def names(self) -> tuple[str, ...]:
        """The ids alone."""
        return tuple(one.id for one in self.ids)


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """All that the kubelet has dealt, and what it knows of the plugins' lists."""

    entries: tuple[Entry, ...] = ()
    registered: dict[str, frozenset[str]] = {}
    """Ids by resource that the kubelet counts as healthy: its acknowledgement of a list."""

    def of(self, resource: str) -> tuple[Entry, ...]:
        """The entries of one resource."""
        return tuple(one for one in self.entries if one.resource == resource)

    def held(self, resource: str) -> dict[str, HeldId]:
        """Every id of ``resource`` that a container holds, by name."""
        nodes: dict[str, set[int]] = {}
        for one in (one for entry in self.of(resource) for one in entry.ids):
            nodes.setdefault(one.id, set()).update(one.numa_nodes)
        return {name: HeldId(id=name, numa_nodes=tuple(sorted(found))) for name, found in sorted(nodes.items())}


# Every key is there, if only for null: one that is missing or misspelt must not read as nothing held.
class _Entry(msgspec.Struct):
    pod: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    ids: dict[str, list[str]] | list[str] | None = msgspec.field(name="DeviceIDs")
    answer: str | None = msgspec.field(name="AllocResp")


class _Data(msgspec.Struct):
    entries: list[_Entry] | None = msgspec.field(name="PodDeviceEntries")
    registered: dict[str, list[str] | None] | None = msgspec.field(name="RegisteredDevices")


class _File(msgspec.Struct):
    data: _Data = msgspec.field(name="Data")


def read_checkpoint(content: bytes) -> Checkpoint | None:
    """The checkpoint that ``content`` is; None where it makes no sense. An empty one is a node that dealt nothing.

    The form is the kubelet's (pkg/kubelet/cm/devicemanager/checkpoint): ids by NUMA node, those without a hint
    under node -1. Until 1.19, and right behind an upgrade from there, it is one list that tells no node; a seat's
    name does, as it would else be taken for one that was dealt without a hint.
    """
    if not content:
        return Checkpoint()
    try:
        data = msgspec.json.decode(content, type=_File).data
    except UNDECODABLE:
        return None
    registered = {resource: frozenset(ids or ()) for resource, ids in (data.registered or {}).items()}
    return Checkpoint(entries=tuple(map(_entry, data.entries or ())), registered=registered)


def _entry(raw: _Entry) -> Entry:
    nodes = _by_name(raw.ids) if isinstance(raw.ids, list) else _by_record(raw.ids or {})
    ids = tuple(HeldId(id=one, numa_nodes=tuple(sorted(found))) for one, found in sorted(nodes.items()))
    return Entry(pod=raw.pod, container=raw.container, resource=raw.resource, ids=ids, answer=_answer(raw.answer))


def _by_record(raw: dict[str, list[str]]) -> dict[str, set[int]]:
    nodes: dict[str, set[int]] = {}
    for node, names in raw.items():
        for one in names:
            nodes.setdefault(one, set()).update({int(node)} if _NODE.fullmatch(node) else ())
    return nodes


def _by_name(raw: list[str]) -> dict[str, set[int]]:
    return {one: set(node_of(zone_of(one))) for one in raw}


def _answer(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except ValueError:
        # Whether it is no base64 or no ASCII: nobody can tell what it was.
        return b""
