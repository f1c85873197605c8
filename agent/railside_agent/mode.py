"""Which mode the node is in: by setting, by the node's label, or by what was true before.

It must not ask the API server, nor decide what becomes of seats when the mode changes.
"""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from railside_proto.names import INSTANCE_TYPE_LABEL, MODE_LABEL
from railside_proto.pool import Mode
from railside_proto.reasons import Code, Reason, reason

Configured = Literal["label", "ib-shared", "ib-shared-multi"]
Source = Literal["setting", "label", "memory"]

_MODES: Final = {mode.value: mode for mode in Mode}


class NotSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The node's labels are not known; ``detail`` says why."""

    detail: str


class ModeDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The mode in force, who said so, and what a person should know about it."""

    mode: Mode | None
    """None: nothing new is offered."""
    source: Source
    reason: Reason | None = None


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is known of the own node; once seen, the last that was seen."""

    seen: bool = False
    uid: str = ""
    mode_label: str | None = None
    """None where the node has no such label, or is not seen yet."""
    instance_type: str | None = None
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


class Node(msgspec.Struct, frozen=True):
    """The few fields of a Node that are looked at."""

    metadata: _Metadata


def decide_mode(configured: Configured, label: NotSeen | str | None, remembered: Mode | None) -> ModeDecision:
    """The mode in force. ``label`` is None where the node is seen and has none."""
    if configured != "label":
        return ModeDecision(mode=Mode(configured), source="setting")
    match label:
        case None:
            return ModeDecision(mode=None, source="label", reason=_reason(Code.NO_MODE_LABEL))
        case NotSeen(detail=detail):
            why = _reason(Code.NODE_NOT_SEEN, detail=detail, instead=_instead(remembered))
            return ModeDecision(mode=remembered, source="memory", reason=why)
        case str(value) if value in _MODES:
            return ModeDecision(mode=_MODES[value], source="label")
        case str(value):
            why = _reason(Code.MODE_LABEL_UNKNOWN, value=value, instead=_instead(remembered))
            return ModeDecision(mode=remembered, source="memory", reason=why)


def node_facts(nodes: Iterable[Node], name: str, problem: str | None, before: NodeFacts) -> NodeFacts:
    """What ``nodes``, a whole picture, shows of the node ``name``.

    A node that is not among them is being made anew by its kubelet: ``before`` stays.
    """
    node = next((one for one in nodes if one.metadata.name == name), None)
    if node is None:
        missing = problem or f"the API server knows no node {name}"
        return msgspec.structs.replace(before, problem=missing)
    labels = node.metadata.labels or _Labels()
    return NodeFacts(
        seen=True,
        uid=node.metadata.uid,
        mode_label=labels.mode,
        instance_type=labels.instance_type,
        problem=problem,
    )


def _instead(remembered: Mode | None) -> str:
    return f"the mode stays {remembered}" if remembered else "nothing new is offered"


def _reason(code: Code, **facts: str) -> Reason:
    return reason(code, label=MODE_LABEL, **facts)
