"""Joins the ids by which the kubelet knows GPUs with the GPUs of a machine.

It must not guess: an id that names no single GPU has none, and keeps only its NUMA node, which the kubelet says.

What ids there are: NVIDIA's plugin deals UUIDs (``GPU-8b938a01-...``), with time-slicing ``GPU-...::3``, for MIG
``MIG-<uuid>`` or with drivers before R470 ``MIG-GPU-<uuid>/GI/CI``, and where UUIDs are switched off the index.
AMD's deals the PCI address of a whole GPU, and for a part of one the name of a platform device
(``amdgpu_xcp_3``), which says nothing of where it sits.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from railside_agent.kernel_text import pci_address
from railside_proto.machine import Gpu, Machine

_SHARED: Final = re.compile(r"(?P<id>.+)::\d+")
_OLD_MIG: Final = re.compile(r"MIG-(?P<id>GPU-[^/]+)/\d+/\d+", re.IGNORECASE)
_INDEX: Final = re.compile(r"\d{1,4}", re.ASCII)


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """An id as the kubelet spells it, and its GPU; None where the path is unknown."""

    id: str
    gpu: Gpu | None


def locate(ids: Iterable[str], machine: Machine) -> tuple[Located, ...]:
    """The GPU of each id, in the order of ``ids``. Several ids may mean the same GPU, or a part of it each."""
    table = _by_id(machine)
    return tuple(Located(id=each, gpu=table.get(_whole(each))) for each in ids)


def _whole(dealt: str) -> str:
    """The id of the whole GPU that an id, or a share of one, means."""
    shared = _SHARED.fullmatch(dealt)
    one = shared["id"] if shared else dealt
    part = _OLD_MIG.fullmatch(one)
    return _key(part["id"] if part else one)


def _key(whole: str) -> str:
    """One spelling for each id: addresses and UUIDs come in either case, and an index is no address."""
    return f"#{int(whole)}" if _INDEX.fullmatch(whole) else pci_address(whole)


def _by_id(machine: Machine) -> dict[str, Gpu]:
    """Every GPU by UUID, by address, and NVIDIA's by their place in the order of addresses."""
    uuids = Counter(gpu.uuid.lower() for gpu in machine.gpus if gpu.uuid is not None)
    indexed = [gpu for gpu in machine.gpus if gpu.vendor == "nvidia"]
    table = {_key(str(index)): gpu for index, gpu in enumerate(indexed)}
    for gpu in machine.gpus:
        table[gpu.address] = gpu
        if gpu.uuid is not None and uuids[gpu.uuid.lower()] == 1:
            table[_key(gpu.uuid)] = gpu
    return table
