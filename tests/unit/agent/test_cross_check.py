import msgspec
import pytest
from tests.unit.builders import gpu, machine

from railside_agent.cross_check import claimed_gpus, disagreements
from railside_agent.holders import Checkpoint, Entry, HeldId
from railside_agent.pod_resources import Allocatable, ClaimedDevice, ContainerHolding, NodeHoldings
from railside_agent.pods import Pod, Pods
from railside_proto.machine import Machine
from railside_proto.names import RESOURCE
from railside_proto.reasons import Code

_POD = Pod(uid="u1", name="train", namespace="ml", ended=False, terminating=False)
_STATIC = Pod(uid="u1", static_uid="s1", name="train", namespace="ml", ended=False, terminating=False)
_PODS = Pods(pods=(_POD,))
_GPUS = (gpu(7, ("pci0000:07",)), gpu(8, ("pci0000:08",)))


def _entry(*seats: str, pod: str = "u1", container: str = "main", resource: str = RESOURCE) -> Entry:
    return Entry(pod=pod, container=container, resource=resource, ids=tuple(HeldId(id=seat) for seat in seats))


def _said(*seats: str, container: str = "main", resource: str = RESOURCE) -> NodeHoldings:
    devices = {resource: seats} if seats else {}
    holding = ContainerHolding(namespace="ml", pod="train", container=container, devices=devices)
    return NodeHoldings(containers=(holding,), allocatable=Allocatable())


@pytest.mark.parametrize(
    ("said", "entries", "pods"),
    [
        pytest.param(_said("n0-s0"), [_entry("n0-s0")], _PODS, id="the-same"),
        pytest.param(_said("n0-s0", "n0-s1"), [_entry("n0-s1"), _entry("n0-s0")], _PODS, id="of-two-entries"),
        pytest.param(_said("n0-s0"), [], Pods(), id="a-pod-that-nobody-else-knows"),
        pytest.param(_said(), [_entry("n0-s0")], _PODS, id="the-kubelet-forgets-for-a-second"),
        pytest.param(
            NodeHoldings(containers=(), allocatable=Allocatable()), [_entry("n0-s0")], _PODS, id="no-answer"
        ),
        pytest.param(_said("GPU-1", resource="nvidia.com/gpu"), [], _PODS, id="another-resource"),
        pytest.param(_said("n0-s0"), [_entry("n0-s0", pod="s1")], Pods(pods=(_STATIC,)), id="a-static-pod"),
    ],
)
def test_accounts_that_agree_say_nothing(said: NodeHoldings, entries: list[Entry], pods: Pods) -> None:
    """Two accounts of the same, and all that only one of them can know, are no disagreement."""
    assert list(disagreements(said, Checkpoint(entries=tuple(entries)), pods, RESOURCE)) == []


@pytest.mark.parametrize(
    ("said", "entries", "sentence"),
    [
        pytest.param(
            _said("n0-s1", "n0-s0"),
            [_entry("n0-s0")],
            "the kubelet says that ml/train/main holds n0-s0, n0-s1, and its checkpoint says n0-s0",
            id="more",
        ),
        pytest.param(
            _said("n0-s0"),
            [],
            "the kubelet says that ml/train/main holds n0-s0, and its checkpoint says nothing",
            id="nothing-recorded",
        ),
        pytest.param(
            _said("n0-s0"),
            [_entry("n0-s0", container="init"), _entry("n0-s0", pod="u2"), _entry("n0-s0", resource="other/one")],
            "the kubelet says that ml/train/main holds n0-s0, and its checkpoint says nothing",
            id="recorded-for-others",
        ),
    ],
)
def test_accounts_that_differ_are_told(said: NodeHoldings, entries: list[Entry], sentence: str) -> None:
    """Each container of which the kubelet contradicts itself is named, with both accounts."""
    (found,) = disagreements(said, Checkpoint(entries=tuple(entries)), _PODS, RESOURCE)
    assert (found.code, found.sentence) == (Code.HOLDERS_DIFFER, sentence)


@pytest.mark.parametrize(
    ("devices", "drivers", "numbers"),
    [
        pytest.param(["gpu-1"], ["gpu.nvidia.com"], [1], id="one"),
        pytest.param(["gpu-0", "gpu-1"], ["gpu.nvidia.com"] * 2, [0, 1], id="two"),
        pytest.param(["gpu-1"], ["gpu.example.com"], [], id="another-driver"),
        pytest.param(["gpu-1-mig-0", "gpu-", "gpu-99999", "gpu-5"], ["gpu.nvidia.com"] * 4, [], id="no-such-gpu"),
    ],
)
def test_gpus_of_claims(devices: list[str], drivers: list[str], numbers: list[int]) -> None:
    """Whole GPUs that NVIDIA's driver gave by claims are known by their minor numbers, and no others."""
    claimed = tuple(
        ClaimedDevice(claim="c", namespace="ml", driver=driver, pool="n", device=device)
        for driver, device in zip(drivers, devices, strict=True)
    )
    holding = ContainerHolding(namespace="ml", pod="train", container="main", claimed=claimed)
    said = NodeHoldings(containers=(holding,), allocatable=Allocatable())
    assert claimed_gpus(said, _numbered()) == frozenset(_GPUS[number].address for number in numbers)


def test_before_the_kubelet_has_said_anything_no_gpu_is_claimed() -> None:
    """An answer that has not come claims nothing."""
    assert claimed_gpus(None, _numbered()) == frozenset()


def _numbered() -> Machine:
    numbered = (msgspec.structs.replace(one, index=number) for number, one in enumerate(_GPUS))
    return machine(gpus=tuple(numbered))
