"""The scheduler's count before a pod comes to the node, and the kubelet's own for pods that no scheduler saw.

It answers for totals by resource and for the words of a refusal. It must not know of NUMA nodes.
"""

from collections.abc import Iterable, Mapping

from railside_sim.pod_spec import Pod
from railside_sim.pods import Refusal, ResourceStatus

Status = Mapping[str, ResourceStatus]


def lacking(pod: Pod, others: Iterable[Pod], status: Status) -> str | None:
    """Why a scheduler with this one node leaves the pod waiting; None where there is room."""
    used = _used(others)
    short = [
        name for name, count in _extended(pod).items() if count > _allocatable(status, name) - used.get(name, 0)
    ]
    if not short:
        return None
    return f"0/1 nodes are available: {', '.join(f'1 Insufficient {name}' for name in sorted(short))}."


def over_node(pod: Pod, others: Iterable[Pod], status: Status) -> Refusal | None:
    """Why the kubelet turns away a pod, though it has dealt it all; resources it never heard of are no reason.

    This is rare: ``status`` counts at least what is dealt, so another pod must ask for what it was never dealt.
    """
    used = _used(others)
    for name, count in _extended(pod).items():
        capacity, taken = _allocatable(status, name), used.get(name, 0)
        if name in status and count > capacity - taken:
            message = (
                f"Node didn't have enough resource: {name},"
                f" requested: {count}, used: {taken}, capacity: {capacity}"
            )
            return Refusal(reason=f"OutOf{name}", message=message)
    return None


def _extended(pod: Pod) -> dict[str, int]:
    """Of device plugins; who asks for 0 asks for nothing, however little there is."""
    return {name: count for name, count in pod.total().items() if "/" in name and count}


def _used(pods: Iterable[Pod]) -> dict[str, int]:
    used: dict[str, int] = {}
    for pod in pods:
        for name, count in _extended(pod).items():
            used[name] = used.get(name, 0) + count
    return used


def _allocatable(status: Status, name: str) -> int:
    return status.get(name, ResourceStatus()).allocatable
