"""What is applied for a node's record, what became of it, and whether that keeps the agent from being ready.

It must not speak to the API server, nor decide what the record says.
"""

import enum
from typing import Any, Final, Literal

import msgspec

from railside_proto.decoding import UNDECODABLE
from railside_proto.names import RECORD_API, RECORD_KIND
from railside_proto.record import Record

Publish = Literal["auto", "always", "never"]

_NODE_API: Final = "v1"


class Standing(enum.StrEnum):
    """What the last try to write the record came to."""

    OFF = "off"
    """The record is not to be published."""
    NOT_TRIED = "not-tried"
    """There is nothing to say of the node yet."""
    WRITTEN = "written"
    NO_KIND = "no-kind"
    """The cluster does not know such records."""
    AWAY = "away"
    """The API server cannot be reached, or is not well: it is asked again."""
    REFUSED = "refused"
    """The API server has answered no, and will do so until somebody changes something."""


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """The record's fate."""

    standing: Standing = Standing.OFF
    needed: bool = False
    """Whether the agent is not ready without it."""
    sequence: int = 0
    """Of the record that was tried last; 0 before the first."""
    problem: str | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    boot_id: str = ""
    sequence: int = 0


class _Object(msgspec.Struct, frozen=True):
    status: _Status | None = None


def is_on(publish: Publish, node_name: str) -> bool:
    """Whether a record is published: ``auto`` needs a node to publish it for."""
    return publish == "always" or (publish == "auto" and bool(node_name))


def hindrance(now: Publication) -> str | None:
    """Why the agent is not ready for the record's sake; None where that is no reason.

    Whoever reads the record takes it for true while the agent's pod is ready. So it is not, once the API server
    has refused what is true now. A server that is away hears nothing of readiness either, and a cluster that does
    not know such records has no readers: both are a reason only where somebody insists on the record.
    """
    in_the_way = now.standing is Standing.REFUSED or (now.needed and now.standing is not Standing.WRITTEN)
    return f"the node's record is not written: {now.problem or 'it was not tried yet'}" if in_the_way else None


def claim(node: str, node_uid: str) -> dict[str, Any]:
    """The object itself, owned by its Node so that it goes with it."""
    owner = {"apiVersion": _NODE_API, "kind": "Node", "name": node, "uid": node_uid}
    return {**_named(node), "metadata": {"name": node, "ownerReferences": [owner]}}


def content(node: str, record: Record) -> dict[str, Any]:
    """The object's status."""
    return {**_named(node), "status": msgspec.to_builtins(record)}


def sequence_of(answer: bytes, boot_id: str) -> int:
    """How far an object, as the API server shows it, has come in this boot; 0 where it tells of none."""
    try:
        status = msgspec.json.decode(answer, type=_Object).status or _Status()
    except UNDECODABLE:
        return 0
    return status.sequence if status.boot_id == boot_id else 0


def _named(node: str) -> dict[str, Any]:
    return {"apiVersion": RECORD_API, "kind": RECORD_KIND, "metadata": {"name": node}}
