import msgspec
import pytest

from railside_agent.mode import (
    Configured,
    ModeDecision,
    Node,
    NodeFacts,
    NotSeen,
    Source,
    decide_mode,
    node_facts,
)
from railside_proto.names import INSTANCE_TYPE_LABEL, MODE_LABEL
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


def _node(name: str = "n1", uid: str = "u1", **labels: str) -> Node:
    return msgspec.convert({"metadata": {"name": name, "uid": uid, "labels": labels}}, Node)


_LABELLED = _node(**{MODE_LABEL: "ib-shared", INSTANCE_TYPE_LABEL: "ecs.hpcpni3.45xlarge", "other": "x"})
_KNOWN = NodeFacts(seen=True, uid="u1", mode_label="ib-shared", instance_type="ecs.hpcpni3.45xlarge", problem=None)


def test_a_node_is_read() -> None:
    """UID, mode label and machine type come from the Node, and nothing is wrong."""
    assert node_facts([_LABELLED], "n1", None, before=NodeFacts()) == _KNOWN


def test_a_node_without_labels_is_seen() -> None:
    """A node that has no label at all is seen, and has no mode."""
    bare = msgspec.convert({"metadata": {"name": "n1", "uid": "u1"}}, Node)
    facts = node_facts([bare], "n1", None, before=NodeFacts())
    assert (facts.seen, facts.label) == (True, None)


def test_another_node_is_not_ours() -> None:
    """A server that does not honour the selector does not give us another node's label."""
    facts = node_facts([_node("n2", "u2", **{MODE_LABEL: "ib-shared"})], "n1", None, before=NodeFacts())
    assert facts.label == NotSeen(detail="the API server knows no node n1")


def test_a_problem_leaves_what_was_seen() -> None:
    """While the API server is away the label stays as it was, with the problem beside it."""
    facts = node_facts([_LABELLED], "n1", "nobody there", before=_KNOWN)
    assert (facts.label, facts.problem) == ("ib-shared", "nobody there")


def test_a_node_that_is_deleted_keeps_its_label() -> None:
    """A Node object that is gone is being made anew by its kubelet: the last label holds meanwhile."""
    facts = node_facts([], "n1", None, before=_KNOWN)
    assert (facts.label, facts.problem) == ("ib-shared", "the API server knows no node n1")


def test_before_the_first_answer_nothing_is_seen() -> None:
    """At the start the label is not known, which is not the same as a node without one."""
    assert NodeFacts().label == NotSeen(detail="the API server has not answered yet")
