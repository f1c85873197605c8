import json

import pytest
from tests.unit.builders import RDMA_CM, hca, machine

from railside_agent.binding import Bound
from railside_agent.container_edits import (
    ContainerEdits,
    DeviceEdit,
    MountEdit,
    allocation_key,
    container,
    contents,
    edits,
    read_allocation,
)
from railside_proto.pool import Container, Pool

_POOL = Pool()
_BOUND = Bound(seats=("n0-s0", "n1-s3"), hcas=(hca(0), hca(4, 1)))


def test_a_key_is_the_same_in_any_order_of_the_seats() -> None:
    """The kubelet lists a container's seats in any order; the folder is the same."""
    assert allocation_key(_POOL, ("a", "b")) == allocation_key(_POOL, ("b", "a"))


@pytest.mark.parametrize(
    ("pool", "seats"),
    [
        pytest.param(_POOL, ("a", "c"), id="other-seats"),
        pytest.param(_POOL, ("a",), id="fewer-seats"),
        pytest.param(_POOL, ("ab",), id="joined-names"),
        pytest.param(Pool(resource="example.org/rdma"), ("a", "b"), id="other-pool"),
    ],
)
def test_other_seats_have_another_key(pool: Pool, seats: tuple[str, ...]) -> None:
    """No two sets of seats share a folder."""
    assert allocation_key(_POOL, ("a", "b")) != allocation_key(pool, seats)


@pytest.mark.parametrize("host_root", ["", "/host"])
@pytest.mark.parametrize("virtual_topology", [True, False])
def test_the_answer_to_allocate(host_root: str, *, virtual_topology: bool) -> None:
    """A directory of devices and the info folder; the topology's directory only where the host has its file."""
    folder = f"{host_root}/run/railside/alloc/{allocation_key(_POOL, ('n0-s0',))}"
    info = MountEdit(host_path=f"{folder}/info", container_path="/run/railside/infiniband-rdma")
    topology = MountEdit(
        host_path=f"{host_root}/var/run/nvidia-topologyd", container_path="/var/run/nvidia-topologyd"
    )
    expected = ContainerEdits(
        devices=(DeviceEdit(host_path=f"{folder}/ib", container_path="/dev/infiniband"),),
        mounts=(info, topology) if virtual_topology else (info,),
    )
    assert expected == edits(_POOL, ("n0-s0",), host_root, virtual_topology=virtual_topology)


def test_a_container_gets_its_own_nodes_and_the_connection_manager() -> None:
    """The uverbs nodes of its HCAs and rdma_cm, and nothing of other HCAs (B-DP-50)."""
    now = machine(hca(0), hca(1), hca(4, 1), rdma_cm=RDMA_CM)
    assert (hca(0).uverbs, hca(4).uverbs, RDMA_CM) == contents(_BOUND, now).nodes


def test_without_a_connection_manager_a_container_gets_its_uverbs_alone() -> None:
    """A host without rdma_cm harms nobody (B-DP-1)."""
    assert (hca(0).uverbs, hca(4).uverbs) == contents(_BOUND, machine()).nodes


def test_nccl_is_told_exactly_the_containers_hcas() -> None:
    """nccl.conf matches names exactly: mlx5_1 must not mean mlx5_10 too (B-DP-50)."""
    files = contents(_BOUND, machine()).files
    assert (files["nccl.conf"], files["hcas"]) == ("NCCL_IB_HCA==mlx5_0,mlx5_4\n", "mlx5_0\nmlx5_4\n")


def test_the_allocation_is_told_to_programs() -> None:
    """allocation.json names seats, HCAs and where the container finds them."""
    told = json.loads(contents(_BOUND, machine()).files["allocation.json"])
    first = {
        "address": "0000:00:00.0",
        "name": "mlx5_0",
        "nodeGuid": "5c25:7303:00a1:0000",
        "numaNode": 0,
        "device": "/dev/infiniband/uverbs0",
    }
    assert (["n0-s0", "n1-s3"], first) == (told["seats"], told["hcas"][0])


def test_the_allocation_can_be_read_back() -> None:
    """What was written at a start is what the books know after the agent's restart."""
    text = contents(_BOUND, machine()).files["allocation.json"].encode()
    expected = Container(seats=("n0-s0", "n1-s3"), hcas=("0000:00:00.0", "0000:04:00.0"))
    assert (expected, expected) == (container(_BOUND), read_allocation(text))


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"seats": 1, "hcas": []}', b"\xff"])
def test_what_is_no_allocation_is_none(text: bytes) -> None:
    """A torn or foreign file is nobody's container."""
    assert read_allocation(text) is None
