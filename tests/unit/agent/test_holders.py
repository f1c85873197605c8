import msgspec
import pytest

from railside_agent.holders import HeldId, held_ids
from railside_proto.names import RESOURCE


def _entry(ids_by_node: object, resource: str = RESOURCE) -> dict[str, object]:
    return {
        "PodUID": "4f0b",
        "ContainerName": "main",
        "ResourceName": resource,
        "DeviceIDs": ids_by_node,
        "AllocResp": "",
    }


def _checkpoint(*entries: dict[str, object]) -> bytes:
    data = {"PodDeviceEntries": list(entries) or None, "RegisteredDevices": {RESOURCE: ["n0-s0"]}}
    return msgspec.json.encode({"Data": data, "Checksum": 3871467})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(_checkpoint(), (), id="nothing-held"),
        pytest.param(
            _checkpoint(_entry({"1": ["n1-s0"], "0": ["n0-s1", "n0-s0"]})),
            (
                HeldId(id="n0-s0", numa_nodes=(0,)),
                HeldId(id="n0-s1", numa_nodes=(0,)),
                HeldId(id="n1-s0", numa_nodes=(1,)),
            ),
            id="sorted",
        ),
        pytest.param(_checkpoint(_entry({"-1": ["a"]})), (HeldId(id="a"),), id="without-a-hint"),
        pytest.param(
            _checkpoint(_entry({"0": ["a"], "1": ["a"]})), (HeldId(id="a", numa_nodes=(0, 1)),), id="two-nodes"
        ),
        pytest.param(
            _checkpoint(_entry({"0": ["a"]}), _entry({"0": ["a"]})),
            (HeldId(id="a", numa_nodes=(0,)),),
            id="init-and-main-share",
        ),
        pytest.param(_checkpoint(_entry({"0": ["GPU-1"]}, "nvidia.com/gpu")), (), id="another-resource"),
        pytest.param(_checkpoint(_entry(None)), (), id="no-ids"),
        pytest.param(b"", None, id="empty"),
        pytest.param(b"{}", None, id="no-data"),
        pytest.param(_checkpoint(_entry(["n0-s0"])), None, id="ids-of-an-older-form"),
        pytest.param(b"\xff\xfe", None, id="garbage"),
    ],
)
def test_ids_held_by_the_checkpoint(content: bytes, expected: tuple[HeldId, ...] | None) -> None:
    """Ids of the resource are held, each once with the nodes recorded for it; nonsense is never "nothing held"."""
    assert expected == held_ids(content, RESOURCE)
