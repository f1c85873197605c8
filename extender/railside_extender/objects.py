"""Nodes and records as the API server gives them, read into what the extender needs.

It must not keep an older record where the newest makes no sense: what cannot be read is a reason.
"""

import msgspec

from railside_extender.cluster import NodeFacts
from railside_proto.decoding import UNDECODABLE
from railside_proto.reasons import Code, Reason, reason
from railside_proto.record import Record

_MOST_WORDS = 200


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    uid: str


class _NodeInfo(msgspec.Struct, frozen=True):
    boot_id: str = msgspec.field(name="bootID", default="")


class _NodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    node_info: _NodeInfo = _NodeInfo()


class NodeObject(msgspec.Struct, frozen=True):
    """The few fields of a Node that are looked at."""

    metadata: _Metadata
    status: _NodeStatus = _NodeStatus()


class RecordObject(msgspec.Struct, frozen=True):
    """An RDMANode whose status was not looked into yet."""

    metadata: _Metadata
    status: msgspec.Raw = msgspec.Raw()
    """As JSON; empty where there is none. ``Raw | None`` would take nothing but null."""


def node_facts(node: NodeObject) -> NodeFacts:
    """What counts of ``node``."""
    return NodeFacts(node.metadata.uid, node.status.node_info.boot_id)


def read_record(found: RecordObject) -> Record | Reason:
    """The record, or why there is none."""
    if bytes(found.status) in {b"", b"null"}:
        return reason(Code.NO_RECORD)
    try:
        return _DECODER.decode(found.status)
    except UNDECODABLE as error:
        return reason(Code.RECORD_ABSURD, detail=" ".join(str(error).split())[:_MOST_WORDS])


_DECODER = msgspec.json.Decoder(Record)
