"""The extender protocol: what the real scheduler sends, and what nobody should."""

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.extender.nodes import pod_json

from railside_extender import wire
from railside_extender.pod_facts import pod_facts
from railside_proto.names import RESOURCE


def body(**more: Any) -> bytes:  # noqa: ANN401 -- JSON
    return json.dumps({"Pod": pod_json(hcas=1), **more}).encode()


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize("cached", ["true", "false"])
def test_the_real_schedulers_requests_are_read(recordings: Path, verb: str, cached: str) -> None:
    """Both verbs, with names and with whole nodes, as a kube-scheduler 1.34 sent them."""
    asked = wire.question((recordings / f"extender-samples/{verb}-nodeCacheCapable-{cached}.json").read_bytes())
    assert pod_facts(asked.pod).resources >= {RESOURCE}
    assert len(asked.names) >= 2
    assert (asked.objects is None) == (cached == "true")


def test_whole_nodes_are_given_back_as_they_came(recordings: Path) -> None:
    """Who sends Nodes reads Nodes, and names else (G1)."""
    request = (recordings / "extender-samples/filter-nodeCacheCapable-false.json").read_bytes()
    asked, sent = wire.question(request), json.loads(request)["Nodes"]["items"]
    said = json.loads(wire.filtered(asked, wire.Answer(names=asked.names[:1])))
    assert said["NodeNames"] is None
    assert said["Nodes"]["items"] == sent[:1]


def test_names_are_always_a_list() -> None:
    """Nothing fits is an empty list: null would have the scheduler look at Nodes (G1)."""
    asked = wire.question(body(NodeNames=["a"]))
    said = json.loads(wire.filtered(asked, wire.Answer(names=[], failed=wire.entries(["a"], "Busy: no"))))
    assert said == {
        "Nodes": None,
        "NodeNames": [],
        "FailedNodes": {"a": "Busy: no"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_lower_case_is_read_too() -> None:
    """Clients of the Policy era spelt the envelope otherwise, and Go reads any case."""
    assert list(wire.question(json.dumps({"pod": pod_json(), "nodenames": ["a"]}).encode()).names) == ["a"]


def test_names_win_over_nodes() -> None:
    """Where both are there, names are what a cache-capable scheduler means."""
    asked = wire.question(body(NodeNames=["a"], Nodes={"items": []}))
    assert (list(asked.names), asked.objects) == (["a"], None)


@pytest.mark.parametrize(
    ("sent", "word"),
    [
        pytest.param(b"", "makes no sense", id="empty"),
        pytest.param(b"{", "makes no sense", id="cut short"),
        pytest.param(b"[]", "makes no sense", id="a list"),
        pytest.param(b'{"NodeNames":["a"]}', "names no Pod", id="no pod"),
        pytest.param(body(), "neither NodeNames nor Nodes", id="neither"),
        pytest.param(body(NodeNames="a"), "makes no sense", id="a word for a list"),
        pytest.param(body(NodeNames=[1]), "makes no sense", id="a number for a name"),
        pytest.param(body(Nodes={"items": [{}]}), "a node of the request", id="a node without name"),
        pytest.param(b'{"Pod":' + b"[" * 100_000, "makes no sense", id="nested without end"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(sent: bytes, word: str) -> None:
    """What no scheduler sends is refused, and says what is wrong."""
    with pytest.raises(wire.BadRequestError, match=word):
        wire.question(sent)


def test_mutated_requests_are_read_or_refused() -> None:
    """Bytes changed, dropped and doubled at random: a question or one sentence, never anything else."""
    rng = random.Random(random.SystemRandom().random())  # noqa: S311 -- not a secret
    whole = body(NodeNames=["a", "b"])
    for _ in range(5000):
        sent = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            start = rng.randrange(len(sent))
            sent[start : start + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        try:
            asked = wire.question(bytes(sent))
        except wire.BadRequestError:
            continue
        assert isinstance(asked.names, list | tuple)
        pod_facts(asked.pod)


def test_scores_are_integers() -> None:
    """The scheduler decodes no other numbers."""
    assert msgspec.json.decode(wire.prioritized([("a", 7)])) == [{"Host": "a", "Score": 7}]
