import pytest

from railside_agent.pod_resources import (
    Allocatable,
    AllocatableDevice,
    ClaimedDevice,
    ContainerHolding,
    allocatable,
    holdings,
)
from railside_proto.names import RESOURCE
from railside_proto.pb import podresources_v1_pb2 as pb

_GPU = "nvidia.com/gpu"


def _devices(resource: str, *ids: str, nodes: tuple[int, ...] = ()) -> pb.ContainerDevices:
    topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=node) for node in nodes]) if nodes else None
    return pb.ContainerDevices(resource_name=resource, device_ids=ids, topology=topology)


def _pod(*containers: pb.ContainerResources) -> pb.ListPodResourcesResponse:
    return pb.ListPodResourcesResponse(
        pod_resources=[pb.PodResources(name="train", namespace="ai", containers=containers)]
    )


def _holding(container: str, **facts: object) -> ContainerHolding:
    return ContainerHolding(namespace="ai", pod="train", container=container, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(pb.ListPodResourcesResponse(), None, id="no-pod-is-not-known-yet"),
        pytest.param(_pod(), (), id="a-pod-without-containers"),
        pytest.param(_pod(pb.ContainerResources(name="a")), (_holding("a"),), id="holds-nothing"),
        pytest.param(
            _pod(
                pb.ContainerResources(
                    name="a",
                    devices=[
                        _devices(RESOURCE, "n0-s1", nodes=(0,)),
                        _devices(RESOURCE, "n0-s0", nodes=(0,)),
                        _devices(_GPU, "GPU-2", nodes=(0,)),
                        _devices(_GPU, "GPU-2", nodes=(1,)),
                    ],
                    cpu_ids=[3, 1],
                ),
                pb.ContainerResources(name="b"),
            ),
            (_holding("a", devices={_GPU: ("GPU-2",), RESOURCE: ("n0-s0", "n0-s1")}, cpus=(1, 3)), _holding("b")),
            id="ids-by-resource",
        ),
        pytest.param(
            _pod(
                pb.ContainerResources(
                    name="a",
                    dynamic_resources=[
                        pb.DynamicResource(
                            claim_name="gpus",
                            claim_namespace="ai",
                            claim_resources=[
                                pb.ClaimResource(
                                    driver_name="gpu.nvidia.com", pool_name="node", device_name="gpu-0"
                                )
                            ],
                        )
                    ],
                )
            ),
            (
                _holding(
                    "a",
                    claimed=(
                        ClaimedDevice(
                            claim="gpus", namespace="ai", driver="gpu.nvidia.com", pool="node", device="gpu-0"
                        ),
                    ),
                ),
            ),
            id="claimed",
        ),
    ],
)
def test_who_holds_what(answer: pb.ListPodResourcesResponse, expected: object) -> None:
    """Each container's ids by resource, and what claims gave it; an empty list says nothing (law 6)."""
    assert holdings(answer) == expected


def test_what_can_be_given() -> None:
    """A device on two NUMA nodes comes in two entries and is one device; one without a hint has no node."""
    answer = pb.AllocatableResourcesResponse(
        devices=[
            _devices(_GPU, "GPU-1", nodes=(1,)),
            _devices(_GPU, "GPU-1", nodes=(0,)),
            _devices(_GPU, "GPU-0", nodes=(0,)),
            _devices(RESOURCE, "bare"),
        ],
        cpu_ids=[5, 4],
    )
    assert allocatable(answer) == Allocatable(
        devices={
            _GPU: (
                AllocatableDevice(id="GPU-0", numa_nodes=(0,)),
                AllocatableDevice(id="GPU-1", numa_nodes=(0, 1)),
            ),
            RESOURCE: (AllocatableDevice(id="bare"),),
        },
        cpus=(4, 5),
    )
