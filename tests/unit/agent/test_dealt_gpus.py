import msgspec
import pytest
from tests.unit.agent.situations import GPU_RESOURCE, RULES, beside, gpus_of, held
from tests.unit.builders import machine

from railside_agent.dealt_gpus import GpuId, counts, gpu_ids, lacks_places
from railside_agent.holders import Checkpoint, Entry
from railside_agent.pod_resources import Allocatable, AllocatableDevice
from railside_proto.machine import Gpu
from railside_proto.record import Count

MIG = "nvidia.com/mig-1g.10gb"
FOUR = (beside(1), beside(2), beside(3, 1), beside(4, 1))
NAMES = ("GPU-1", "GPU-2", "GPU-3", "GPU-4")
PLACES = {"GPU-1": 0, "GPU-2": 0, "GPU-3": 1, "GPU-4": 1}


def _allocatable(resource: str = GPU_RESOURCE, **numa_nodes: int | None) -> Allocatable:
    """Ids, ``_`` for ``-``, each on its NUMA node."""
    devices = tuple(
        AllocatableDevice(id=name.replace("_", "-"), numa_nodes=() if node is None else (node,))
        for name, node in numa_nodes.items()
    )
    return Allocatable(devices={resource: devices})


def _registered(*names: str, entries: tuple[Entry, ...] = (), resource: str = GPU_RESOURCE) -> Checkpoint:
    return Checkpoint(entries=entries, registered={resource: frozenset(names)})


ALL = _allocatable(GPU_1=0, GPU_2=0, GPU_3=1, GPU_4=1)


def _ids(
    checkpoint: Checkpoint,
    said: Allocatable | None = None,
    *,
    gpus: tuple[Gpu, ...] = FOUR,
    over: str = "",
) -> tuple[GpuId, ...]:
    living = [one for one in checkpoint.entries if one.pod != over]
    return gpu_ids(machine(gpus=gpus), checkpoint, living, said, RULES.gpu_resources)


def _placed(ids: tuple[GpuId, ...]) -> dict[str, tuple[int, ...]]:
    return {one.id: one.numa_nodes for one in ids}


def _count(ids: tuple[GpuId, ...], *, capacity: int | None = None, gpus: tuple[Gpu, ...] = FOUR) -> list[str]:
    """Each as NODES: listed held free."""
    told = {} if capacity is None else {GPU_RESOURCE: capacity}
    return [_short(one) for one in counts(ids, machine(gpus=gpus), told)]


def _short(one: Count) -> str:
    return f"{','.join(map(str, one.numa_nodes))}: {one.listed} {one.held} {one.free}"


@pytest.mark.parametrize(
    ("checkpoint", "said", "expected"),
    [
        pytest.param(_registered(*NAMES), ALL, PLACES, id="as-the-kubelet-says"),
        pytest.param(_registered(*NAMES), None, PLACES, id="before-it-says-anything"),
        pytest.param(
            _registered(*NAMES), _allocatable(GPU_1=1, GPU_2=1), {**PLACES, "GPU-1": 1, "GPU-2": 1}, id="elsewhere"
        ),
        pytest.param(
            _registered("GPU-1"), _allocatable(GPU_2=None), {"GPU-1": None, "GPU-2": None}, id="no-hints"
        ),
        pytest.param(_registered("MIG-x", "GPU-1"), None, {"GPU-1": 0, "MIG-x": None}, id="no-gpu-by-its-id"),
        pytest.param(
            _registered(entries=(msgspec.structs.replace(gpus_of("p"), ids=(held("GPU-9", 1),)),)),
            None,
            {"GPU-9": 1},
            id="what-the-checkpoint-recorded",
        ),
    ],
)
def test_where_the_kubelet_believes_an_id_to_be(
    checkpoint: Checkpoint, said: Allocatable | None, expected: dict[str, int | None]
) -> None:
    """The kubelet's word counts, and until it is heard what its plugin read from the same sysfs."""
    assert _placed(_ids(checkpoint, said)) == {
        name: () if node is None else (node,) for name, node in expected.items()
    }


def test_who_has_an_id() -> None:
    """An id that a living pod has is held; the plugin's list says which are well, whatever was said before."""
    checkpoint = _registered("GPU-1", "GPU-2", "GPU-3", entries=(gpus_of("p", "GPU-1"), gpus_of("q", "GPU-2")))
    told = {one.id: (one.healthy, one.held) for one in _ids(checkpoint, ALL, over="q")}
    assert told == {
        "GPU-1": (True, True),
        "GPU-2": (True, False),
        "GPU-3": (True, False),
        "GPU-4": (False, False),
    }


def test_an_id_has_its_gpu() -> None:
    """An id is joined with the GPU that it names, and other resources are not looked at."""
    checkpoint = Checkpoint(
        registered={
            GPU_RESOURCE: frozenset({"GPU-1::0"}),
            MIG: frozenset({"MIG-y"}),
            "a.b/c": frozenset({"GPU-2"}),
        }
    )
    told = {one.id: (one.resource, one.gpu) for one in _ids(checkpoint)}
    assert told == {"GPU-1::0": (GPU_RESOURCE, FOUR[0].address), "MIG-y": (MIG, None)}


_ONE_HELD = _registered(*NAMES, entries=(gpus_of("p", "GPU-1"),))


@pytest.mark.parametrize(
    ("checkpoint", "said", "capacity", "expected"),
    [
        pytest.param(_registered(*NAMES), ALL, 4, ["0: 2 0 2", "1: 2 0 2"], id="all-free"),
        pytest.param(_ONE_HELD, ALL, 4, ["0: 2 1 1", "1: 2 0 2"], id="one-held"),
        pytest.param(_registered(*NAMES[1:]), ALL, 4, ["0: 2 0 1", "1: 2 0 2"], id="one-ill-that-was-well"),
        pytest.param(_registered(*NAMES[1:]), None, 4, ["0: 2 0 1", "1: 2 0 2"], id="one-ill-ever-since"),
        pytest.param(_registered(*NAMES[1:]), None, 3, ["0: 1 0 1", "1: 2 0 2"], id="one-that-nobody-offers"),
        pytest.param(_registered(*NAMES[1:]), None, None, ["0: 2 0 1", "1: 2 0 2"], id="no-capacity-told"),
        pytest.param(_registered(*NAMES[2:]), None, 4, ["0: 2 0 0", "1: 2 0 2"], id="a-whole-numa-node-ill"),
        pytest.param(
            _registered("GPU-1::0", "GPU-1::1", "GPU-3::0", "GPU-3::1"),
            None,
            8,
            ["0: 4 0 2", "1: 4 0 2"],
            id="shares-of-ill-gpus",
        ),
        pytest.param(_registered("MIG-a", "MIG-b"), None, 3, [": 2 0 2"], id="slices-tell-no-gpu"),
        pytest.param(
            _registered(*NAMES[:3]),
            _allocatable(GPU_1=None, GPU_2=None, GPU_3=None),
            4,
            [": 4 0 3"],
            id="without-hints",
        ),
        pytest.param(_registered(), None, 4, [], id="a-plugin-that-went"),
    ],
)
def test_what_the_kubelet_counts(
    checkpoint: Checkpoint, said: Allocatable | None, capacity: int | None, expected: list[str]
) -> None:
    """Widths go by all ids, ill ones too, of which capacity and machine tell; room goes by those that are well."""
    assert expected == _count(_ids(checkpoint, said), capacity=capacity)


def test_the_gpus_of_another_vendor_do_not_count() -> None:
    """A GPU that no plugin of this resource could offer widens nothing."""
    display = msgspec.structs.replace(beside(5), vendor="amd", uuid=None)
    gpus = (*FOUR, display)
    assert _count(_ids(_registered(*NAMES), ALL, gpus=gpus), gpus=gpus) == ["0: 2 0 2", "1: 2 0 2"]


@pytest.mark.parametrize(
    ("checkpoint", "said", "expected"),
    [
        pytest.param(None, None, False, id="nothing-known"),
        pytest.param(_registered(*NAMES), None, True, id="never-asked"),
        pytest.param(_registered(*NAMES), ALL, False, id="all-told"),
        pytest.param(_registered(*NAMES, "GPU-5"), ALL, True, id="a-new-one"),
        pytest.param(_registered("GPU-1"), ALL, False, id="one-is-left"),
        pytest.param(_registered("x", resource="a.b/c"), ALL, False, id="no-gpus"),
    ],
)
def test_when_the_kubelet_is_to_be_asked(
    checkpoint: Checkpoint | None, said: Allocatable | None, *, expected: bool
) -> None:
    """As soon as it knows a healthy GPU of which it has not said where that is."""
    assert expected == lacks_places(checkpoint, said, RULES.gpu_resources)
