import fnmatch

import msgspec
import pytest
from tests.unit.agent.situations import binding
from tests.unit.builders import RDMA_CM, hca, machine

from railside_agent.binding import Bound
from railside_agent.container_edits import (
    ContainerEdits,
    DeviceEdit,
    MountEdit,
    Style,
    allocation_folders,
    allocation_key,
    contents,
    device_nodes,
    edits,
    plain_edits,
    still_true,
)
from railside_proto.machine import DeviceNode, Hca, Machine
from railside_proto.pool import Pool

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
    assert expected == edits(_POOL, ("n0-s0",), Style(host_root=host_root), virtual_topology=virtual_topology)


@pytest.mark.parametrize(
    ("index", "expected"), [(0, "/dev/infiniband"), (1, "/dev/infiniband/."), (2, "/dev/infiniband/./.")]
)
def test_two_pools_in_one_container_spell_the_folder_differently(index: int, expected: str) -> None:
    """The kubelet keeps one device of a path: the second pool's must look like another."""
    (device,) = edits(_POOL, ("n0-s0",), Style(pool_index=index), virtual_topology=False).devices
    assert expected == device.container_path


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(False, {}), (True, {"NCCL_CONF_FILE": "/run/railside/infiniband-rdma/nccl.conf"})],
)
def test_nccl_is_pointed_to_its_file_by_setting(*, wanted: bool, expected: dict[str, str]) -> None:
    """No variable names HCAs; by setting one names the file that does, at both ways of binding."""
    style = Style(nccl_config=wanted)
    told = edits(_POOL, ("n0-s0",), style, virtual_topology=False).environment
    assert (expected, expected) == (told, plain_edits(_POOL, _BOUND, machine(), style).environment)


def test_the_answer_where_hcas_are_bound_at_allocate() -> None:
    """The nodes of the HCAs by their true names, and the info folder; no folder of devices."""
    folder = f"/host/run/railside/alloc/{allocation_key(_POOL, _BOUND.seats)}"
    nodes = [f"/dev/infiniband/{name}" for name in ("uverbs0", "uverbs4", "rdma_cm")]
    expected = ContainerEdits(
        devices=tuple(DeviceEdit(host_path=f"/host{node}", container_path=node) for node in nodes),
        mounts=(MountEdit(host_path=f"{folder}/info", container_path="/run/railside/infiniband-rdma"),),
    )
    assert expected == plain_edits(_POOL, _BOUND, machine(rdma_cm=RDMA_CM), Style(host_root="/host"))


def test_the_topology_is_mounted_at_both_ways_of_binding() -> None:
    """Where the host has its file, a container bound at Allocate finds the topology, too."""
    mounts = plain_edits(_POOL, _BOUND, machine(virtual_topology=True), Style()).mounts
    assert "/var/run/nvidia-topologyd" in {mount.container_path for mount in mounts}


_UMAD = DeviceNode(name="umad0", major=231, minor=0)
_MANAGED = hca(0, umads=(_UMAD,))


@pytest.mark.parametrize(
    ("now", "style", "expected"),
    [
        pytest.param(
            machine(hca(1), rdma_cm=RDMA_CM),
            Style(),
            (hca(0).uverbs, hca(4).uverbs, RDMA_CM),
            id="B-DP-50-its-own",
        ),
        pytest.param(machine(), Style(), (hca(0).uverbs, hca(4).uverbs), id="B-DP-1-no-connection-manager"),
        pytest.param(machine(), Style(umad=True), (hca(0).uverbs, hca(4).uverbs, _UMAD), id="umad-by-setting"),
    ],
)
def test_which_nodes_a_container_gets(now: Machine, style: Style, expected: tuple[DeviceNode, ...]) -> None:
    """The uverbs nodes of its HCAs, rdma_cm if the host has it, umad by setting alone, and nothing of others."""
    assert expected == device_nodes((_MANAGED, hca(4, 1)), now, style)


def test_two_shares_of_one_hca_are_its_nodes_once() -> None:
    """In ib-shared-multi two seats of a container may mean one HCA, whose node is made once."""
    assert device_nodes((_MANAGED, _MANAGED), machine(), Style(umad=True)) == (_MANAGED.uverbs, _UMAD)


def test_contents_are_nodes_and_files() -> None:
    """What lies in a container's directories is what was handed in, and its HCAs' nodes."""
    laid = contents(_BOUND, machine(), Style(), {"hcas": "mlx5_0\n"})
    assert ((hca(0).uverbs, hca(4).uverbs), {"hcas": "mlx5_0\n"}) == (laid.nodes, laid.files)


def test_the_folders_of_a_pool_are_found_by_its_name() -> None:
    """The pattern fits the pool's own keys, and not those of pools whose names begin alike."""
    others = (Pool(resource=f"example.org/infiniband-rdma{end}") for end in ("2", ".y"))
    keys = [allocation_key(pool, ("a",)) for pool in (_POOL, *others)]
    assert [fnmatch.fnmatch(key, allocation_folders(_POOL)) for key in keys] == [True, False, False]


def _numbered(node: DeviceNode, minor: int) -> DeviceNode:
    return msgspec.structs.replace(node, minor=minor)


def _of_guid(node_guid: str) -> Hca:
    return msgspec.structs.replace(_ONE, node_guid=node_guid)


_ONE = hca(1, umads=(_UMAD,))


@pytest.mark.parametrize(
    ("laid_out", "now", "expected"),
    [
        pytest.param({_ONE.uverbs, RDMA_CM}, machine(_ONE, rdma_cm=RDMA_CM), True, id="as-it-was"),
        pytest.param({_ONE.uverbs}, machine(_ONE, rdma_cm=RDMA_CM), True, id="before-rdma_cm-was-loaded"),
        pytest.param({_ONE.uverbs, RDMA_CM}, machine(_ONE), False, id="rdma_cm-is-gone"),
        pytest.param(
            {_ONE.uverbs, RDMA_CM}, machine(_ONE, rdma_cm=_numbered(RDMA_CM, 57)), False, id="other-rdma_cm"
        ),
        pytest.param({_ONE.uverbs, _UMAD}, machine(_ONE), True, id="with-umad"),
        pytest.param({_ONE.uverbs, _numbered(_UMAD, 7)}, machine(_ONE), False, id="other-umad"),
        pytest.param({_ONE.uverbs}, machine(hca(2)), False, id="gone"),
        pytest.param({_ONE.uverbs}, machine(hca(1, uverbs=hca(2).uverbs)), False, id="renumbered"),
        pytest.param({_numbered(_ONE.uverbs, 1)}, machine(_ONE), False, id="other-numbers-of-one-name"),
        pytest.param({_ONE.uverbs, hca(2).uverbs}, machine(_ONE, hca(2)), False, id="anothers-node-too"),
        pytest.param(set(), machine(_ONE), False, id="nothing-laid-out"),
        pytest.param({_ONE.uverbs}, machine(_of_guid("5c25:7303:00a1:0002")), False, id="another-card"),
        pytest.param({_ONE.uverbs}, machine(_of_guid("0000:0000:0000:0000")), True, id="a-card-without-a-guid"),
        pytest.param(
            {msgspec.structs.replace(_ONE.uverbs, mode=0o600)}, machine(_ONE), True, id="another-mode-of-the-node"
        ),
    ],
)
def test_whether_what_is_laid_out_is_still_true(
    laid_out: set[DeviceNode], now: Machine, *, expected: bool
) -> None:
    """Names and numbers must be just those of the container's HCAs now: else they are another pod's (law 9)."""
    assert expected == still_true(binding(None, n0_s0=1), frozenset(laid_out), now)
