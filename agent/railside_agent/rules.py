"""The settings that decisions rest on, apart from where files and sockets are. It must not hold a default."""

from typing import Literal

import msgspec

AdvertiseTopology = Literal["auto", "always", "never"]
BindingTime = Literal["start", "allocate"]
"""When a container's HCAs are chosen: at each start, or once and for good when its seats are dealt."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """How the operator wants it."""

    advertise_topology: AdvertiseTopology
    tombstone_seconds: float
    """How long an id that is no longer offered stays in the list, unhealthy."""
    recovery_seconds: float
    """How long an HCA must have been well before it comes into new hands."""
    report_held_unhealthy: bool
    """Whether the kubelet is told that a held seat's HCA is ill, for those who read the pod's device health."""
    gpu_resources: tuple[str, ...]
    """Patterns of the resources whose ids are GPUs."""
