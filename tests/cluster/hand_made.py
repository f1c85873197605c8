"""Nodes without a machine, and records that no agent wrote; pods that go to them and run nowhere.

It answers for what a scheduler and the extender see of a node with two NUMA nodes, four GPUs and four HCAs on
each. It must not know what follows from that.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from harness.kubectl import Kubectl
from harness.objects import Node
from railside_proto.names import (
    GPU_RESOURCE,
    RECORD_GROUP,
    RECORD_KIND,
    RECORD_PLURAL,
    RECORD_VERSION,
    RESOURCE,
    SCHEDULER,
)

Manifest = dict[str, Any]
Room = tuple[int, int]
"""Of each NUMA node."""

STAGE = "example.com/stage"
"""The label that keeps tests apart: pods go to nodes of one stage alone."""

ON_EACH = 4
BOOT = "boot"


@dataclass(frozen=True)
class HandMade:
    """Nodes of the cluster that are objects and nothing else."""

    kubectl: Kubectl

    def add(self, stage: str, name: str, *, gpus: Room = (4, 4), hcas: Room = (4, 4)) -> None:
        """A node with so many free GPUs and HCAs; the others are in the hands of pods that nobody knows."""
        # Tainted: whatever else the cluster wants to run would wait there for ever.
        taints = [{"key": STAGE, "effect": "NoSchedule"}]
        self.kubectl.apply({**_named("v1", "Node", name, labels={STAGE: stage}), "spec": {"taints": taints}})
        self._say("node", name, {"nodeInfo": {"bootID": BOOT}, **_totals()})
        self.kubectl.apply(_named(f"{RECORD_GROUP}/{RECORD_VERSION}", RECORD_KIND, name, labels={STAGE: stage}))
        self.tell(name, gpus=gpus, hcas=hcas)

    def tell(self, name: str, *, gpus: Room = (4, 4), hcas: Room = (4, 4)) -> None:
        """Write a node's record."""
        node = self.kubectl.read(Node, name)
        assert node is not None
        self._say(RECORD_PLURAL, name, _record(node.metadata.uid, gpus, hcas))

    def _say(self, kind: str, name: str, status: Manifest) -> None:
        change = json.dumps({"status": status})
        self.kubectl("patch", kind, name, "--subresource=status", "--type=merge", "-p", change)


@contextmanager
def hand_made(kubectl: Kubectl) -> Iterator[HandMade]:
    """None yet; all that were added are gone afterwards, with their pods."""
    yield HandMade(kubectl)
    kubectl("delete", "pods", "-l", STAGE, "--force", "--grace-period=0")
    kubectl("delete", "nodes", "-l", STAGE)
    kubectl("delete", RECORD_PLURAL, "-l", STAGE)


def pod(stage: str, name: str, *, gpus: int = 0, hcas: int = 0) -> Manifest:
    """A pod for nodes of ``stage``, whatever their taints say."""
    limits = {key: str(count) for key, count in ((GPU_RESOURCE, gpus), (RESOURCE, hcas)) if count}
    spec = {
        "schedulerName": SCHEDULER,
        "nodeSelector": {STAGE: stage},
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}],
    }
    return {**_named("v1", "Pod", name, labels={STAGE: stage}), "spec": spec}


def _named(api: str, kind: str, name: str, **more: object) -> Manifest:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **more}}


def _totals() -> Manifest:
    """What a kubelet counts, of which a scheduler takes the sums of its pods off."""
    total = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU_RESOURCE: "8", RESOURCE: "8"}
    return {"capacity": total, "allocatable": total}


def _record(node_uid: str, gpus: Room, hcas: Room) -> Manifest:
    return {
        "nodeUid": node_uid,
        "bootId": BOOT,
        "version": "0",
        "kubelet": {"source": "configz", "topologyPolicy": "restricted", "topologyScope": "container"},
        "pools": [
            {
                "resource": RESOURCE,
                "mode": "ib-shared",
                "share": 1,
                "registered": True,
                "hcas": 2 * ON_EACH,
                "free": sum(hcas),
            }
        ],
        "numaNodes": [{"number": number, "cpus": f"{8 * number}-{8 * number + 7}"} for number in (0, 1)],
        "counts": [*_counts(GPU_RESOURCE, gpus), *_counts(RESOURCE, hcas)],
    }


def _counts(resource: str, free: Room) -> list[Manifest]:
    return [
        {
            "resource": resource,
            "numaNodes": [number],
            "listed": ON_EACH,
            "held": ON_EACH - count,
            "free": count,
        }
        for number, count in enumerate(free)
    ]
