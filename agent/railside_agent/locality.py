"""How near to its GPUs a pod insists on having its HCAs, by its annotations. It must not choose HCAs."""

from typing import Final

from railside_agent.pods import Pods
from railside_proto.locality import REQUIRED_NUMA, REQUIRED_PCIE
from railside_proto.machine import PathClass

_FARTHEST: Final = {REQUIRED_PCIE: PathClass.PXB, REQUIRED_NUMA: PathClass.NODE}
"""Words of the annotation, and the farthest path that they allow."""


def enforced(pods: Pods) -> dict[str, PathClass]:
    """The farthest path by pod UID, for pods that had rather not start than have it farther."""
    return {
        uid: _FARTHEST[pod.locality]
        for uid, pod in pods.by_uid.items()
        if pod.locality_enforce and pod.locality in _FARTHEST
    }
