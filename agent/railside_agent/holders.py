"""Which ids containers hold, by the kubelet's own checkpoint: the one account that is whole right after its start.

It must not read files. The checkpoint's form is the kubelet's own affair and may change with its version: what
makes no sense is None, never a guess that nothing is held.
"""

import re
from typing import Final

import msgspec

_NODE: Final = re.compile(r"[0-9]{1,5}")


class HeldId(msgspec.Struct, frozen=True, kw_only=True):
    """One id in a container's hands. Ids of ended pods stay in the checkpoint until the next allocation."""

    id: str
    numa_nodes: tuple[int, ...] = ()
    """Where the kubelet believes it to be; empty for an id that carried no hint."""


class _Entry(msgspec.Struct):
    resource: str = msgspec.field(name="ResourceName")
    ids_by_node: dict[str, list[str]] | None = msgspec.field(name="DeviceIDs", default=None)


class _Data(msgspec.Struct):
    entries: list[_Entry] | None = msgspec.field(name="PodDeviceEntries", default=None)


class _Checkpoint(msgspec.Struct):
    data: _Data = msgspec.field(name="Data")


def held_ids(checkpoint: bytes, resource: str) -> tuple[HeldId, ...] | None:
    """Ids of ``resource`` that containers hold, sorted; None where ``checkpoint`` makes no sense.

    The form is that of kubelet 1.20 and later (pkg/kubelet/cm/devicemanager/checkpoint): ids by NUMA node, those
    without a hint under node -1.
    """
    try:
        entries = msgspec.json.decode(checkpoint, type=_Checkpoint).data.entries or []
    except msgspec.MsgspecError:
        return None
    nodes: dict[str, set[int]] = {}
    for entry in entries:
        for node, ids in (entry.ids_by_node or {}).items() if entry.resource == resource else ():
            for one in ids:
                nodes.setdefault(one, set()).update({int(node)} if _NODE.fullmatch(node) else ())
    return tuple(HeldId(id=one, numa_nodes=tuple(sorted(found))) for one, found in sorted(nodes.items()))
