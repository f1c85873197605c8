"""The scheduler's extender protocol v1, as kube-scheduler 1.20 to 1.37 speaks it: bytes in, values out, and back.

Names of the envelope are spelt as the Go types have them, since these carry no JSON tags; lower case is read, too,
as Go would. It must not decide anything, and refuses what makes no sense with one sentence.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from railside_extender.pod_facts import PodObject
from railside_proto.decoding import UNDECODABLE

MOST_BYTES: Final = 64 << 20
"""Of one request: 5,000 whole nodes with their status, as nodeCacheCapable: false sends them."""


class BadRequestError(Exception):
    """Raised for a body that is no request of a scheduler; whoever serves answers 400 with its text."""


class _NodeMeta(msgspec.Struct, frozen=True):
    name: str


class _NodeObject(msgspec.Struct, frozen=True):
    metadata: _NodeMeta


class _NodeList(msgspec.Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] | None = None


class _Args(msgspec.Struct, frozen=True):
    pod: PodObject | None = msgspec.field(name="Pod", default=None)
    nodes: _NodeList | None = msgspec.field(name="Nodes", default=None)
    node_names: list[str] | None = msgspec.field(name="NodeNames", default=None)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A pod, and the nodes that are asked about."""

    pod: PodObject
    names: Sequence[str]
    objects: Mapping[str, msgspec.Raw] | None = None
    """Whole nodes by name, where the scheduler sent these: then it wants them back."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes passed; each of the others is in one of the two with its text."""

    names: Sequence[str]
    failed: bytes = b""
    """Entries of a JSON object, node and text: evicting pods may help there."""
    unresolvable: bytes = b""
    """The same: it may not."""


class BindingArgs(msgspec.Struct, frozen=True):
    """A pod that is to be bound."""

    name: str = msgspec.field(name="PodName")
    namespace: str = msgspec.field(name="PodNamespace")
    uid: str = msgspec.field(name="PodUID")
    node: str = msgspec.field(name="Node")


class Victim(msgspec.Struct, frozen=True):
    """A pod that would be evicted."""

    uid: str = msgspec.field(name="UID")


class MetaVictims(msgspec.Struct, frozen=True):
    """Pods of one node that would be evicted, and how many disruption budgets that breaks."""

    pods: tuple[Victim, ...] | None = msgspec.field(name="Pods", default=None)
    violations: int = msgspec.field(name="NumPDBViolations", default=0)

    @property
    def uids(self) -> tuple[str, ...]:
        """Of the pods."""
        return tuple(one.uid for one in self.pods or ())


T = TypeVar("T")

_ENVELOPE: Final = {
    word.lower(): word
    for word in (
        "Pod", "Nodes", "NodeNames", "PodName", "PodNamespace", "PodUID", "Node",
        "NodeNameToVictims", "NodeNameToMetaVictims",
    )
}  # fmt: skip


def question(body: bytes) -> Question:
    """The question of a filter or prioritize call. Raises BadRequestError."""
    args = _decoded(body, _Args)
    if args.pod is None:
        raise BadRequestError("the request names no Pod")
    if args.node_names is not None:
        return Question(pod=args.pod, names=args.node_names)
    if args.nodes is None:
        raise BadRequestError("the request has neither NodeNames nor Nodes")
    try:
        objects = {msgspec.json.decode(raw, type=_NodeObject).metadata.name: raw for raw in args.nodes.items or ()}
    except UNDECODABLE as error:
        raise BadRequestError(f"a node of the request makes no sense: {error}") from None
    return Question(pod=args.pod, names=tuple(objects), objects=objects)


def filtered(asked: Question, answer: Answer) -> bytes:
    """The answer to a filter call, with names or whole nodes as was asked."""
    whole: Mapping[str, object]
    if asked.objects is None:
        whole = {"Nodes": None, "NodeNames": answer.names}
    else:
        items = [asked.objects[name] for name in answer.names]
        whole = {"Nodes": {"metadata": {}, "items": items}, "NodeNames": None}
    failed = {
        "FailedNodes": msgspec.Raw(b"{%b}" % answer.failed),
        "FailedAndUnresolvableNodes": msgspec.Raw(b"{%b}" % answer.unresolvable),
    }
    return msgspec.json.encode({**whole, **failed, "Error": ""})


def entries(names: Iterable[str], text: str) -> bytes:
    """One text for each of ``names``, as Answer has them."""
    return msgspec.json.encode(dict.fromkeys(names, text))[1:-1]


def prioritized(scores: Iterable[tuple[str, int]]) -> bytes:
    """The answer to a prioritize call: integers, as the scheduler decodes nothing else."""
    return msgspec.json.encode([{"Host": name, "Score": score} for name, score in scores])


class _Victims(msgspec.Struct, frozen=True):
    """As MetaVictims, with whole pods."""

    pods: tuple[PodObject, ...] | None = msgspec.field(name="Pods", default=None)
    violations: int = msgspec.field(name="NumPDBViolations", default=0)


class _PreemptionArgs(msgspec.Struct, frozen=True):
    pod: PodObject = msgspec.field(name="Pod")
    victims: dict[str, _Victims] | None = msgspec.field(name="NodeNameToVictims", default=None)
    meta: dict[str, MetaVictims] | None = msgspec.field(name="NodeNameToMetaVictims", default=None)


def preemption(body: bytes) -> tuple[PodObject, dict[str, MetaVictims]]:
    """The pod that would come, and whom the scheduler would evict on each node. Raises BadRequestError."""
    args = _decoded(body, _PreemptionArgs)
    if args.meta is not None:
        return args.pod, args.meta
    return args.pod, {node: _meta(victims) for node, victims in (args.victims or {}).items()}


def _meta(victims: _Victims) -> MetaVictims:
    pods = tuple(Victim(pod.metadata.uid) for pod in victims.pods or ())
    return MetaVictims(pods, victims.violations)


def preempted(victims: Mapping[str, MetaVictims]) -> bytes:
    """The answer to a preempt call: these nodes alone, UIDs alone."""
    return msgspec.json.encode({"NodeNameToMetaVictims": victims})


def binding(body: bytes) -> BindingArgs:
    """The pod and node of a bind call. Raises BadRequestError."""
    return _decoded(body, BindingArgs)


def error(text: str) -> bytes:
    """An answer that has the scheduler try the pod again later; never for a fault of single nodes."""
    return msgspec.json.encode({"Error": text})


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        found = msgspec.json.decode(body, type=kind)
        return found if _says_something(found) else msgspec.json.decode(_respelt(body), type=kind)
    except UNDECODABLE:
        pass
    try:
        return msgspec.json.decode(_respelt(body), type=kind)
    except UNDECODABLE as problem:
        raise BadRequestError(f"the request makes no sense: {' '.join(str(problem).split())[:300]}") from None


def _says_something(found: object) -> bool:
    return not isinstance(found, _Args) or found != _Args()


def _respelt(body: bytes) -> bytes:
    """The body with the envelope's names as we know them."""
    raw = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({_ENVELOPE.get(name.lower(), name): value for name, value in raw.items()})
