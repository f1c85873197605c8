import json

import msgspec
import pytest
from tests.unit.agent.situations import address, beside, placed

from railside_agent.allocation_file import allocation_files, read_binding
from railside_agent.binding import Bound
from railside_agent.container_start import ContainerStart
from railside_proto.machine import PathClass
from railside_proto.pool import Binding, Pair

_PAIR = Pair(gpu=beside(4, 1).address, hca=address(4), path=PathClass.PIX)
_SEATS = ("n0-s0", "n1-s3")
_BOUND = Bound(seats=_SEATS, hcas=(placed(10), placed(4, 1)), pod="4f0b", pairs=(_PAIR,))
_START = ContainerStart(seats=_SEATS, pod="4f0b", gpus=(beside(4, 1),))


def test_nccl_is_told_exactly_the_containers_hcas() -> None:
    """nccl.conf matches names exactly: mlx5_1 must not mean mlx5_10 too (B-DP-50)."""
    files = allocation_files(_BOUND, _START)
    assert (files["nccl.conf"], files["hcas"]) == ("NCCL_IB_HCA==mlx5_10,mlx5_4\n", "mlx5_10\nmlx5_4\n")


def test_two_shares_of_one_hca_are_named_once() -> None:
    """A container that has an HCA twice reads its name once, and finds both seats in allocation.json."""
    files = allocation_files(msgspec.structs.replace(_BOUND, hcas=(placed(4), placed(4))), _START)
    assert (files["hcas"], len(json.loads(files["allocation.json"])["hcas"])) == ("mlx5_4\n", 2)


def test_the_allocation_is_told_to_programs() -> None:
    """allocation.json names seats, HCAs and where the container finds them, and the GPU that each serves."""
    told = json.loads(allocation_files(_BOUND, _START)["allocation.json"])
    expected = {
        "address": "0000:04:00.0",
        "name": "mlx5_4",
        "nodeGuid": "5c25:7303:00a1:0004",
        "numaNode": 1,
        "device": "/dev/infiniband/uverbs4",
        "ports": [1],
        "gpu": {"address": "0000:84:00.0", "uuid": "GPU-4", "path": "PIX"},
    }
    assert (["n0-s0", "n1-s3"], None, expected) == (told["seats"], told["hcas"][0]["gpu"], told["hcas"][1])


@pytest.mark.parametrize(
    "bound",
    [
        pytest.param(_BOUND, id="with-gpus"),
        pytest.param(msgspec.structs.replace(_BOUND, pairs=()), id="without-gpus"),
        pytest.param(msgspec.structs.replace(_BOUND, pod=None), id="pod-not-known"),
        pytest.param(
            msgspec.structs.replace(_BOUND, hcas=(placed(4, 1), placed(4, 1))), id="two-shares-of-one-hca"
        ),
    ],
)
def test_the_binding_can_be_read_back(bound: Bound) -> None:
    """What was written at a start is what the agent knows after its own restart (law 6)."""
    text = allocation_files(bound, _START)["allocation.json"].encode()
    assert bound.binding == read_binding(text)


def test_fields_of_later_agents_are_passed_over() -> None:
    """An older agent reads what a newer one wrote, and one that knew no pods wrote none."""
    hca = {"address": "0000:04:00.0", "name": "a", "nodeGuid": "b", "numaNode": None, "device": "/dev/x", "x": 1}
    text = json.dumps({"seats": ["n0-s0"], "hcas": [hca], "later": {}}).encode()
    assert Binding(seats=("n0-s0",), hcas=(address(4),), guids=("b",)) == read_binding(text)


def _with(**facts: object) -> bytes:
    told = json.loads(allocation_files(_BOUND, _START)["allocation.json"])
    return json.dumps({**told, **facts}).encode()


_ODD_PATH = {
    **json.loads(allocation_files(_BOUND, _START)["allocation.json"])["hcas"][1],
    "gpu": {"address": "0000:84:00.0", "uuid": None, "path": "NEAR"},
}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="torn"),
        pytest.param(b"{}", id="of-something-else"),
        pytest.param(b"\xff", id="garbage"),
        pytest.param(_with(seats=1), id="odd-seats"),
        pytest.param(_with(seats=["n0-s0"]), id="fewer-seats-than-hcas"),
        pytest.param(_with(hcas=[]), id="no-hcas"),
        pytest.param(_with(seats=["n0-s0"], hcas=[_ODD_PATH]), id="odd-path"),
    ],
)
def test_what_is_no_allocation_is_nobodys(text: bytes) -> None:
    """A torn or foreign file is nobody's binding, and never an error."""
    assert read_binding(text) is None
