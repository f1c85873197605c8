import pytest

from railside_agent.mode import Configured, ModeDecision, NotSeen, Source, decide_mode
from railside_proto.names import MODE_LABEL
from railside_proto.pool import Mode
from railside_proto.reasons import Code

_ONE, _MANY = Mode.IB_SHARED, Mode.IB_SHARED_MULTI
_AWAY = NotSeen(detail="nobody there")


@pytest.mark.parametrize(
    ("configured", "label", "remembered", "mode", "source", "code"),
    [
        ("label", "ib-shared", None, _ONE, "label", None),
        ("label", "ib-shared-multi", None, _MANY, "label", None),
        ("label", "ib-shared-multi", _ONE, _MANY, "label", None),
        ("label", "ib_shared", _MANY, _MANY, "memory", Code.MODE_LABEL_UNKNOWN),
        ("label", "ib_shared", None, None, "memory", Code.MODE_LABEL_UNKNOWN),
        ("label", "", _ONE, _ONE, "memory", Code.MODE_LABEL_UNKNOWN),
        ("label", "IB-SHARED", _ONE, _ONE, "memory", Code.MODE_LABEL_UNKNOWN),
        ("label", None, None, None, "label", Code.NO_MODE_LABEL),
        ("label", None, _ONE, None, "label", Code.NO_MODE_LABEL),
        ("label", _AWAY, _MANY, _MANY, "memory", Code.NODE_NOT_SEEN),
        ("label", _AWAY, None, None, "memory", Code.NODE_NOT_SEEN),
        ("ib-shared", "ib-shared-multi", _MANY, _ONE, "setting", None),
        ("ib-shared", None, None, _ONE, "setting", None),
        ("ib-shared-multi", _AWAY, _ONE, _MANY, "setting", None),
        ("ib-shared-multi", "nonsense", None, _MANY, "setting", None),
    ],
)
def test_who_says_the_mode(
    configured: Configured,
    label: NotSeen | str | None,
    remembered: Mode | None,
    mode: Mode | None,
    source: Source,
    code: Code | None,
) -> None:
    """A set mode beats the label; no mode, or none seen, leaves the last good one, with a reason (B-DP-61)."""
    decision = decide_mode(configured, label, remembered)
    told = decision.reason.code if decision.reason else None
    assert (decision.mode, decision.source, told) == (mode, source, code)


@pytest.mark.parametrize(
    ("decision", "sentence"),
    [
        (
            decide_mode("label", "ib", _ONE),
            f"the node's label {MODE_LABEL} says 'ib', which is no mode; the mode stays ib-shared",
        ),
        (
            decide_mode("label", "ib", None),
            f"the node's label {MODE_LABEL} says 'ib', which is no mode; nothing new is offered",
        ),
        (
            decide_mode("label", _AWAY, _MANY),
            f"the node's label {MODE_LABEL} cannot be read (nobody there); the mode stays ib-shared-multi",
        ),
        (decide_mode("label", None, None), f"the node has no label {MODE_LABEL}, so nothing new is offered"),
    ],
)
def test_a_reason_says_what_becomes_of_the_node(decision: ModeDecision, sentence: str) -> None:
    """The sentence names the label, what is wrong with it, and what holds instead (B-DP-61)."""
    assert decision.reason is not None
    assert sentence == decision.reason.sentence
