"""Pods that ask for HCAs, and what their status says.

It answers for their form. It must not know plugins, nor wait for anything.
"""

from collections.abc import Collection, Mapping
from typing import Any

from harness.objects import ContainerStatus, Pod

Manifest = dict[str, Any]

DEAF = ("sleep", "100000")
"""Runs until it is killed."""

LASTS = ("sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait")
"""Runs until it is told to end, and ends then: a first process ignores what it does not catch."""


def pod_of(node: str, name: str, command: Collection[str], limits: Mapping[str, int], *, init: bool) -> Manifest:
    """A pod of a node, with an init container that asks for the same if told so."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"ground": node}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
            "containers": [_container("main", limits, command)],
            "initContainers": [_container("before", limits, ("true",))] if init else [],
            "volumes": [{"name": "kept", "emptyDir": {}}],
        },
    }


def _container(name: str, limits: Mapping[str, int], command: Collection[str]) -> dict[str, object]:
    return {
        "name": name,
        "image": "busybox",
        "command": list(command),
        "resources": {"limits": {name: str(count) for name, count in limits.items()}},
        "volumeMounts": [{"name": "kept", "mountPath": "/kept"}],
    }


def refused(pod: Pod) -> bool:
    """Whether the scheduler finds no node for it."""
    return any(one.type == "PodScheduled" and one.reason == "Unschedulable" for one in pod.status.conditions)


def status(pod: Pod) -> ContainerStatus:
    """The pod's only container that is not an init one."""
    (found,) = pod.status.container_statuses
    return found
