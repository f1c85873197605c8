"""What a pod can count on at a node: scores, and pods that insist on HCAs beside their GPUs."""

import msgspec
import pytest
from tests.unit.extender.nodes import BEST_EFFORT, NONE, cluster, counts, pod, record
from tests.unit.extender.test_decider import codes, decider

from railside_proto.machine import PciAddress
from railside_proto.names import GPU_RESOURCE, RESOURCE
from railside_proto.record import DeviceKind, DeviceRecord, Record, TopologyPolicy


def device(kind: DeviceKind, number: int, free: int, switch: int) -> DeviceRecord:
    """The ``number``th of eight, four on each NUMA node."""
    node = number // 4
    port = number if kind is DeviceKind.GPU else number + 8
    return DeviceRecord(
        address=PciAddress(f"0000:{port:02x}:00.0"),
        path=(f"pci0000:{node}0", f"0000:{switch:02x}:01.0", f"0000:{switch:02x}:02.0", f"0000:{port:02x}:03.0"),
        numa_node=node,
        kind=kind,
        resource=GPU_RESOURCE if kind is DeviceKind.GPU else RESOURCE,
        kubelet_numa_nodes=(node,),
        free=free,
        held=1 - free,
    )


def machine(
    gpus: str = "11111111",
    hcas: str = "11111111",
    switches: str = "01234567",
    *,
    policy: TopologyPolicy = BEST_EFFORT,
    name: str = "a",
) -> Record:
    """Eight GPUs and eight HCAs, 1 for a free one; the GPUs hang on the switches named, the HCAs one on each."""
    devices = (
        *(device(DeviceKind.GPU, n, int(free), int(switches[n])) for n, free in enumerate(gpus)),
        *(device(DeviceKind.HCA, n, int(free), n) for n, free in enumerate(hcas)),
    )
    return record(
        name,
        policy=policy,
        devices=devices,
        counts=(*_counts(GPU_RESOURCE, gpus), *_counts(RESOURCE, hcas)),
    )


def _counts(resource: str, free: str) -> tuple[object, ...]:
    halves = (free[:4], free[4:])
    return counts(resource, *((4, half.count("0"), half.count("1")) for half in halves))


def score(found: Record, gpus: int, hcas: int) -> int:
    ((_, points),) = decider(cluster(found)).prioritize(pod(gpus=gpus, hcas=hcas), ["a"], 0.0)
    return points


def test_nearer_is_more() -> None:
    """Pairs on a switch before pairs on a NUMA node before pairs across."""
    on_switch = score(machine(), 2, 2)
    on_node = score(machine(hcas="00111111", gpus="11000011"), 2, 2)
    across = score(machine(gpus="11110000", hcas="00001111"), 2, 2)
    assert on_switch > on_node > across


def test_of_equals_the_one_in_use_is_better() -> None:
    """A node that others use already is taken before one that a whole-node job could have."""
    assert score(machine(gpus="11110000", hcas="11110000"), 2, 2) > score(machine(), 2, 2)


def test_gpus_that_nobody_can_place_count_by_their_numa_node() -> None:
    """MIG slices have no PCI function of their own: a whole NUMA node is worth more than two."""
    whole = msgspec.structs.replace(machine(), devices=())
    spread = msgspec.structs.replace(machine(gpus="11101110"), devices=())
    assert score(whole, 4, 4) > score(spread, 4, 4) == 0


def test_scores_are_within_what_the_scheduler_takes() -> None:
    """0 to 10, whole numbers; a pod that asked for no locality gets none."""
    for free in range(9):
        spelt = "1" * free + "0" * (8 - free)
        assert score(machine(gpus=spelt, hcas=spelt), 1, 1) in range(11)
    known = cluster(machine())
    assert decider(known).prioritize(pod(gpus=1, hcas=1, locality="none"), ["a"], 0.0) == [("a", 0)]


@pytest.mark.parametrize(
    ("found", "asked", "code"),
    [
        pytest.param(machine(), (2, 2), None, id="each GPU has an HCA"),
        pytest.param(machine(hcas="01111111"), (2, 2), "PcieNotNow", id="one of the HCAs is taken"),
        pytest.param(machine(hcas="01111111", gpus="01111111"), (2, 2), None, id="and its GPU with it"),
        pytest.param(machine(switches="00224466"), (2, 2), "PcieNever", id="two GPUs on one switch"),
        pytest.param(machine(switches="00224466"), (1, 1), None, id="one GPU of them"),
        pytest.param(machine(), (0, 2), "PcieWithoutGpus", id="no GPU"),
        pytest.param(machine(policy=NONE), (1, 1), "PolicyNeverAligns", id="nobody aligns"),
    ],
)
def test_who_insists_on_a_switch_can_count_on_it(found: Record, asked: tuple[int, int], code: str | None) -> None:
    """required-pcie holds for every choice of GPUs that the kubelet may make, or the node is unfit."""
    wanted = pod(gpus=asked[0], hcas=asked[1], locality="required-pcie")
    answer = decider(cluster(found)).filter(wanted, ["a"], 0.0).answer
    assert {**codes(answer.failed), **codes(answer.unresolvable)} == ({"a": code} if code else {})


def test_who_insists_on_a_switch_waits_for_others_on_their_way() -> None:
    """They may be given just the HCAs that are needed."""
    known = cluster(machine())
    known.see_pod("uid-p", pod("p", hcas=1, node="a"), 0.0)
    wanted = pod(gpus=1, hcas=1, locality="required-pcie")
    assert codes(decider(known).filter(wanted, ["a"], 0.0).answer.failed) == {"a": "PcieNotNow"}
