"""Which mode the node is in: by setting, by the node's label, or by what was true before.

It must not ask the API server, nor decide what becomes of seats when the mode changes.
"""

from typing import Final, Literal

import msgspec

from railside_proto.names import MODE_LABEL
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


def _instead(remembered: Mode | None) -> str:
    return f"the mode stays {remembered}" if remembered else "nothing new is offered"


def _reason(code: Code, **facts: str) -> Reason:
    return reason(code, label=MODE_LABEL, **facts)
