import json

import pytest

from railside_agent.publication import (
    Publication,
    Publish,
    Standing,
    claim,
    content,
    hindrance,
    is_on,
    sequence_of,
)
from railside_proto.record import Record

_RECORD = Record(node_uid="u1", boot_id="b1", version="1", sequence=4)


@pytest.mark.parametrize(
    ("publish", "node", "expected"),
    [
        ("auto", "n1", True),
        ("auto", "", False),
        ("always", "n1", True),
        ("never", "n1", False),
        ("never", "", False),
    ],
)
def test_whether_a_record_is_published(publish: Publish, node: str, *, expected: bool) -> None:
    """By itself an agent publishes where it knows its node's name."""
    assert expected == is_on(publish, node)


@pytest.mark.parametrize(
    ("standing", "by_itself", "if_needed"),
    [
        (Standing.OFF, False, True),
        (Standing.NOT_TRIED, False, True),
        (Standing.WRITTEN, False, False),
        (Standing.NO_KIND, False, True),
        (Standing.AWAY, False, True),
        (Standing.REFUSED, True, True),
    ],
)
def test_what_keeps_an_agent_from_being_ready(standing: Standing, *, by_itself: bool, if_needed: bool) -> None:
    """Only a record that is refused does, unless somebody insists on it: then whatever else is in its way, too."""
    said = [hindrance(Publication(standing=standing, needed=needed)) is not None for needed in (False, True)]
    assert said == [by_itself, if_needed]


def test_why_it_is_not_ready_is_said() -> None:
    """The API server's words are passed on; before the first try there are none."""
    refused = Publication(standing=Standing.REFUSED, problem="forbidden: not this node")
    assert hindrance(refused) == "the node's record is not written: forbidden: not this node"
    waiting = Publication(standing=Standing.NOT_TRIED, needed=True)
    assert hindrance(waiting) == "the node's record is not written: it was not tried yet"


def test_the_object_belongs_to_its_node() -> None:
    """The record is named after the node and goes with it."""
    said = claim("n1", "u1")
    assert (said["apiVersion"], said["kind"], said["metadata"]["name"]) == (
        "railside.dev/v1alpha1",
        "RDMANode",
        "n1",
    )
    assert said["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1"}]
    assert "status" not in said


def test_the_status_is_the_record() -> None:
    """What is applied to the status is the record and no more: another's metadata stay as they are."""
    said = content("n1", _RECORD)
    assert said["status"] == {"nodeUid": "u1", "bootId": "b1", "version": "1", "sequence": 4}
    assert said["metadata"] == {"name": "n1"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param({"status": {"bootId": "b1", "sequence": 7}}, 7, id="of-this-boot"),
        pytest.param({"status": {"bootId": "b0", "sequence": 7}}, 0, id="of-another-boot"),
        pytest.param({"status": {}}, 0, id="never-written"),
        pytest.param({"metadata": {}}, 0, id="just-made"),
        pytest.param({"status": {"sequence": "many"}}, 0, id="nonsense"),
        pytest.param([], 0, id="no-object"),
    ],
)
def test_an_agent_goes_on_counting(answer: object, expected: int) -> None:
    """An agent that starts anew in one boot counts on from what stands there."""
    assert expected == sequence_of(json.dumps(answer).encode(), "b1")
