from collections.abc import Callable

import msgspec
import pytest
from tests.unit.builders import LogLines

from railside_agent.event_book import Involved, Saying
from railside_agent.pods import Pod, Pods
from railside_agent.teller import Teller
from railside_agent.tidings import Tiding
from railside_proto.reasons import Code, reason
from railside_runtime.cell import Cell

_WHY = reason(Code.HCA_GONE, address="0000:01:00.0")
_MESSAGE = f"{_WHY.sentence}; {_WHY.remedy}"
_TRAIN = Pod(uid="p", name="train", namespace="ml", ended=False, terminating=False)
_TIDING = Tiding(what="an HCA is not sound", level="warning", reason=_WHY, event=True, facts={"hca": "a"})

_Make = Callable[[str], Teller]


@pytest.fixture
def said() -> list[Saying]:
    return []


@pytest.fixture
def make(written: LogLines, said: list[Saying]) -> _Make:
    """A teller of a node with one known pod."""
    pods = Cell(Pods(pods=(_TRAIN,), by_uid={"p": _TRAIN}))
    return lambda node: Teller(written.log, node=node, pods=pods, say=said.append)


@pytest.mark.parametrize(
    ("tiding", "expected"),
    [
        pytest.param(
            _TIDING,
            Saying(
                about=Involved(kind="Node", name="node-1", uid="node-1"),
                reason="HcaGone",
                message=_MESSAGE,
                type="Warning",
            ),
            id="node",
        ),
        pytest.param(
            msgspec.structs.replace(_TIDING, pod="p", level="info"),
            Saying(
                about=Involved(kind="Pod", name="train", namespace="ml", uid="p"),
                reason="HcaGone",
                message=_MESSAGE,
                type="Normal",
            ),
            id="pod",
        ),
        pytest.param(msgspec.structs.replace(_TIDING, pod="q"), None, id="pod-that-is-not-known"),
        pytest.param(msgspec.structs.replace(_TIDING, event=False), None, id="no-event"),
        pytest.param(msgspec.structs.replace(_TIDING, reason=None), None, id="no-reason"),
    ],
)
def test_events(make: _Make, said: list[Saying], tiding: Tiding, expected: Saying | None) -> None:
    """An Event stands on the pod or the node that it is about, with sentence and remedy."""
    make("node-1").tell([tiding])
    assert ([expected] if expected else []) == said


def test_without_a_node_name_nothing_is_said_of_the_node(make: _Make, said: list[Saying]) -> None:
    """An agent that does not know its node's name tells the log alone."""
    make("").tell([_TIDING])
    assert said == []


@pytest.mark.parametrize(
    ("pod", "who"),
    [
        pytest.param("p", {"pod": "ml/train"}, id="known"),
        pytest.param("q", {"pod_uid": "q"}, id="not-known"),
        pytest.param(None, {}, id="node"),
    ],
)
def test_the_log(make: _Make, written: LogLines, pod: str | None, who: dict[str, str]) -> None:
    """A line has the facts, whom it is about, and code, sentence and remedy of its reason."""
    make("node-1").tell([msgspec.structs.replace(_TIDING, pod=pod)])
    (line,) = written.lines
    expected = {
        "event": "an HCA is not sound",
        "level": "warning",
        "hca": "a",
        "reason": "HcaGone",
        "why": _WHY.sentence,
        "remedy": _WHY.remedy,
        **who,
    }
    assert expected == {key: line[key] for key in expected}
    assert {"pod", "pod_uid"} & line.keys() == who.keys()


def test_every_tiding_is_told(make: _Make, written: LogLines) -> None:
    """Several tidings are several lines, in their order and of their level."""
    make("node-1").tell([Tiding(what="one"), Tiding(what="two", level="warning")])
    assert [(line["event"], line["level"]) for line in written.lines] == [("one", "info"), ("two", "warning")]
