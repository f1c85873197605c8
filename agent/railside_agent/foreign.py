"""Ids that another plugin of the same resource name has dealt: which HCAs their holders have.

The kubelet keeps the answer to each Allocate and replays it, and a plain plugin's answer names the device nodes:
whoever is called so now is what the container has since its last start. Where the answer does not tell, as many
HCAs are withheld as are held. It must not decide what is offered.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec
from google.protobuf.message import DecodeError

from railside_agent.holders import Checkpoint, Entry, HeldId
from railside_agent.seat_names import is_ours, zone_of_node
from railside_proto.machine import Hca, PciAddress
from railside_proto.names import RUN_DIR
from railside_proto.pb import deviceplugin_v1beta1_pb2 as pb

_OURS: Final = f"/{RUN_DIR}/"
_UVERBS: Final = re.compile(r".*/(uverbs\d{1,7})")


class Foreign(msgspec.Struct, frozen=True, kw_only=True):
    """What is in the hands of containers that another plugin served."""

    ids: tuple[HeldId, ...] = ()
    hcas: frozenset[PciAddress] = frozenset()
    """HCAs that are theirs alone."""
    unknown: dict[str, int] = {}
    """How many HCAs more they have, by zone, without anybody knowing which."""


def foreign(checkpoint: Checkpoint, resource: str, hcas: Iterable[Hca]) -> Foreign:
    """The foreign ids of ``resource`` and what they stand for on a machine with ``hcas``."""
    by_node = {hca.uverbs.name: hca.address for hca in hcas}
    held: dict[str, HeldId] = {}
    taken: set[PciAddress] = set()
    unknown: dict[str, HeldId] = {}
    for entry in checkpoint.of(resource):
        if is_foreign(entry):
            theirs = {one.id: one for one in entry.ids}
            told = _device_nodes(entry)
            held |= theirs
            taken |= {by_node[name] for name in told if name in by_node}
            # Init and main containers share ids, so the same ids count once. A node that is told and is not there
            # any more is nobody else's HCA.
            unknown |= dict(sorted(theirs.items())[len(told) :])
    return Foreign(
        ids=tuple(held[name] for name in sorted(held)),
        hcas=frozenset(taken),
        unknown=dict(Counter(_zone(one) for one in unknown.values())),
    )


def is_foreign(entry: Entry) -> bool:
    """Whether another plugin dealt what ``entry`` tells of: by the ids, or by an answer that is not ours.

    Once such an id was listed by us, the kubelet may deal it again, and then it is a seat like any other.
    """
    return not all(map(is_ours, entry.names)) and not any(_OURS in path for path in _host_paths(entry))


def _device_nodes(entry: Entry) -> set[str]:
    """Names of the uverbs nodes that the plugin's answer hands over."""
    found = (_UVERBS.fullmatch(path) for path in _host_paths(entry))
    return {match[1] for match in found if match}


def _host_paths(entry: Entry) -> list[str]:
    try:
        answer = pb.ContainerAllocateResponse.FromString(entry.answer)
    except DecodeError:
        return []
    return [*(one.host_path for one in answer.devices), *(one.host_path for one in answer.mounts)]


def _zone(one: HeldId) -> str:
    """Where the kubelet recorded it; several nodes or none are anywhere."""
    return zone_of_node(one.numa_nodes[0] if len(one.numa_nodes) == 1 else None)
