import base64

import msgspec
import pytest
from tests.unit.agent.situations import entry, held

from railside_agent.holders import Checkpoint, Entry, read_checkpoint
from railside_proto.names import RESOURCE


def _raw(ids_by_node: object, resource: str = RESOURCE, **facts: object) -> dict[str, object]:
    plain = {"PodUID": "4f0b", "ContainerName": "main", "ResourceName": resource, "DeviceIDs": ids_by_node}
    return {**plain, "AllocResp": "", **facts}


def _checkpoint(*entries: dict[str, object], registered: object = None) -> bytes:
    data = {"PodDeviceEntries": list(entries) or None, "RegisteredDevices": registered}
    return msgspec.json.encode({"Data": data, "Checksum": 3871467})


def _entry(*ids: object, **facts: object) -> Entry:
    return msgspec.structs.replace(entry("4f0b"), ids=ids, **facts)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(_checkpoint(), (), id="nothing-dealt"),
        pytest.param(b"", (), id="no-file-yet"),
        pytest.param(
            _checkpoint(_raw({"1": ["n1-s0"], "0": ["n0-s1", "n0-s0"]})),
            (_entry(held("n0-s0", 0), held("n0-s1", 0), held("n1-s0", 1)),),
            id="sorted",
        ),
        pytest.param(_checkpoint(_raw({"-1": ["a"]})), (_entry(held("a")),), id="without-a-hint"),
        pytest.param(_checkpoint(_raw({"0": ["a"], "1": ["a"]})), (_entry(held("a", 0, 1)),), id="two-nodes"),
        pytest.param(
            _checkpoint(_raw({"-1": ["GPU-1"]}, "nvidia.com/gpu")),
            (_entry(held("GPU-1"), resource="nvidia.com/gpu"),),
            id="another-resource",
        ),
        pytest.param(
            _checkpoint(_raw(["n1-s0", "any-s0", "a"])),
            (_entry(held("a"), held("any-s0"), held("n1-s0", 1)),),
            id="one-list-until-1.19",
        ),
        pytest.param(_checkpoint(_raw(None)), (_entry(),), id="no-ids"),
        pytest.param(
            _checkpoint(_raw({"0": ["a"]}, AllocResp=base64.b64encode(b"answer").decode())),
            (_entry(held("a", 0), answer=b"answer"),),
            id="with-the-answer",
        ),
        pytest.param(
            _checkpoint(_raw({"0": ["a"]}, AllocResp="no base64!")), (_entry(held("a", 0)),), id="odd-answer"
        ),
        pytest.param(
            _checkpoint(_raw({"0": ["a"]}, AllocResp="CgA\u00e9")),
            (_entry(held("a", 0)),),
            id="answer-beyond-ascii",
        ),
        pytest.param(_checkpoint(_raw({"0": ["a"]}, AllocResp=None)), (_entry(held("a", 0)),), id="no-answer"),
        pytest.param(
            _checkpoint(_raw({"0": ["a"]}, PodUID="x", ContainerName="init", Later=1)),
            (_entry(held("a", 0), pod="x", container="init"),),
            id="fields-of-later-kubelets",
        ),
    ],
)
def test_who_was_dealt_what(content: bytes, expected: tuple[Entry, ...]) -> None:
    """Each entry tells pod, container, ids with their nodes, and the answer that the kubelet replays."""
    assert Checkpoint(entries=expected) == read_checkpoint(content)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"{}", id="no-data"),
        pytest.param(b"{", id="torn"),
        pytest.param(b"\xff\xfe", id="garbage"),
        pytest.param(_checkpoint(_raw("n0-s0")), id="ids-of-another-form"),
        pytest.param(_checkpoint(registered=["n0-s0"]), id="registered-of-another-form"),
        *(
            pytest.param(_checkpoint(_raw({"0": ["n0-s0"]})).replace(key, b"Odd" + key[3:]), id=key.decode())
            for key in (
                b"PodDeviceEntries",
                b"RegisteredDevices",
                b"PodUID",
                b"ContainerName",
                b"ResourceName",
                b"DeviceIDs",
                b"AllocResp",
            )
        ),
    ],
)
def test_nonsense_is_never_nothing_held(content: bytes) -> None:
    """What makes no sense is None, and not an account of empty hands."""
    assert read_checkpoint(content) is None


def test_what_the_kubelet_counts_as_healthy() -> None:
    """The registered ids of each resource are read; none is an empty set."""
    found = read_checkpoint(_checkpoint(registered={RESOURCE: ["n0-s0", "n0-s1"], "example.com/a": None}))
    expected = {RESOURCE: frozenset({"n0-s0", "n0-s1"}), "example.com/a": frozenset[str]()}
    assert found is not None
    assert expected == found.registered


def test_init_and_main_containers_hold_an_id_once() -> None:
    """An id of two entries is held once, at all the nodes that were recorded for it."""
    entries = (_entry(held("a", 0)), _entry(held("a", 1), held("b"), container="init"))
    assert Checkpoint(entries=entries).held(RESOURCE) == {"a": held("a", 0, 1), "b": held("b")}


def test_nesting_without_end_is_nonsense() -> None:
    """What is nested so deeply that nobody means it is no checkpoint, and ends nothing."""
    assert read_checkpoint(b'{"Data":' + b"[" * 200_000) is None
