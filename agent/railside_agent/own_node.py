"""What is known of the own Node, from the object that the API server has of it.

It must not ask the API server, nor decide what follows.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from railside_agent.mode import NotSeen
from railside_proto.names import INSTANCE_TYPE_LABEL, KUBELET_PORT, MODE_LABEL

_INTERNAL: Final = "InternalIP"


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is known of the own node; once seen, the last that was seen."""

    seen: bool = False
    uid: str = ""
    mode_label: str | None = None
    """None where the node has no such label, or is not seen yet."""
    instance_type: str | None = None
    address: str = ""
    """Where its kubelet is to be found; empty where the Node does not say."""
    kubelet_port: int = KUBELET_PORT
    capacity: Mapping[str, int] = {}
    """How many ids the kubelet knows, well or ill, of each extended resource."""
    problem: str | None = "the API server has not answered yet"
    """Why the facts may be old, or are missing."""

    @property
    def label(self) -> NotSeen | str | None:
        """The label as ``decide_mode`` takes it."""
        return self.mode_label if self.seen else NotSeen(detail=self.problem or "the node is not there")


class _Labels(msgspec.Struct, frozen=True):
    mode: str | None = msgspec.field(name=MODE_LABEL, default=None)
    instance_type: str | None = msgspec.field(name=INSTANCE_TYPE_LABEL, default=None)


class _Metadata(msgspec.Struct, frozen=True):
    uid: str
    name: str
    labels: _Labels | None = None


class _Address(msgspec.Struct, frozen=True):
    type: str
    address: str


class _Endpoint(msgspec.Struct, frozen=True):
    port: int = msgspec.field(name="Port", default=0)


class _Endpoints(msgspec.Struct, frozen=True, rename="camel"):
    kubelet_endpoint: _Endpoint | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    addresses: tuple[_Address, ...] | None = None
    daemon_endpoints: _Endpoints | None = None
    capacity: dict[str, str | int | float] | None = None


class Node(msgspec.Struct, frozen=True):
    """The few fields of a Node that are looked at."""

    metadata: _Metadata
    status: _Status | None = None


def node_facts(nodes: Iterable[Node], name: str, problem: str | None, before: NodeFacts) -> NodeFacts:
    """What ``nodes``, a whole picture, shows of the node ``name``.

    A node that is not among them is being made anew by its kubelet: ``before`` stays.
    """
    node = next((one for one in nodes if one.metadata.name == name), None)
    if node is None:
        missing = problem or f"the API server knows no node {name}"
        return msgspec.structs.replace(before, problem=missing)
    labels = node.metadata.labels or _Labels()
    status = node.status or _Status()
    return NodeFacts(
        seen=True,
        uid=node.metadata.uid,
        mode_label=labels.mode,
        instance_type=labels.instance_type,
        address=_address(status),
        kubelet_port=_port(status),
        capacity=dict(_capacity(status)),
        problem=problem,
    )


def _address(status: _Status) -> str:
    """The first internal one, as the API server itself looks for a kubelet."""
    return next((one.address for one in status.addresses or () if one.type == _INTERNAL), "")


def _port(status: _Status) -> int:
    endpoint = status.daemon_endpoints.kubelet_endpoint if status.daemon_endpoints else None
    return (endpoint.port if endpoint else 0) or KUBELET_PORT


def _capacity(status: _Status) -> Iterator[tuple[str, int]]:
    """Whole numbers of what has a domain: ids of device plugins are counted so."""
    for resource, amount in sorted((status.capacity or {}).items()):
        if "/" in resource and str(amount).isdecimal():
            yield resource, int(amount)
