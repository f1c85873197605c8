"""Nodes and records as the API server gives them."""

import msgspec
import pytest
from tests.unit.extender.nodes import record

from railside_extender.objects import NodeObject, RecordObject, node_facts, read_record
from railside_proto.reasons import Code, Reason
from railside_proto.record import Record


def read(**more: object) -> Record | Reason:
    whole = {"metadata": {"name": "a", "uid": "uid"}, **more}
    return read_record(msgspec.json.decode(msgspec.json.encode(whole), type=RecordObject))


def test_a_record_is_read_out_of_its_object() -> None:
    """What an agent wrote into the status comes out the same."""
    assert read(status=record()) == record()


@pytest.mark.parametrize(
    ("more", "code"),
    [
        pytest.param({}, Code.NO_RECORD, id="made and not filled yet"),
        pytest.param({"status": None}, Code.NO_RECORD, id="null"),
        pytest.param({"status": {}}, Code.RECORD_ABSURD, id="empty"),
        pytest.param({"status": {"nodeUid": 3}}, Code.RECORD_ABSURD, id="of another shape"),
        pytest.param({"status": "fine"}, Code.RECORD_ABSURD, id="no object"),
    ],
)
def test_a_status_that_is_no_record_is_a_reason(more: dict[str, object], code: Code) -> None:
    """The object is read all the same, so that its node is unfit by that reason and not by an older record."""
    found = read(**more)
    assert isinstance(found, Reason)
    assert found.code is code


def test_a_node_is_told_by_uid_and_boot() -> None:
    """A Node made by hand has no boot, and is read all the same."""
    whole = {"metadata": {"name": "a", "uid": "u"}, "status": {"nodeInfo": {"bootID": "b", "osImage": "x"}}}
    found = [node_facts(msgspec.convert(one, NodeObject)) for one in (whole, {**whole, "status": {}})]
    assert [(one.uid, one.boot_id) for one in found] == [("u", "b"), ("u", "")]
