"""What the kubelet says of its holders, held against its own checkpoint; and the GPUs that claims have given away.

It must not correct anything by what it finds: the checkpoint is what decisions rest on, and the other account is
empty for a second after a kubelet's start and hides init containers.
"""

import re
from collections.abc import Iterator
from typing import Final

from railside_agent.holders import Checkpoint
from railside_agent.pod_resources import ContainerHolding, NodeHoldings
from railside_agent.pods import Pod, Pods
from railside_proto.machine import Machine, PciAddress
from railside_proto.reasons import Code, Reason, reason

_DRIVER: Final = "gpu.nvidia.com"
_DEVICE: Final = re.compile(r"gpu-(\d{1,4})")
"""How NVIDIA's driver for resource claims calls whole GPUs: by the driver's minor number."""


def disagreements(said: NodeHoldings, checkpoint: Checkpoint, pods: Pods, resource: str) -> Iterator[Reason]:
    """Containers of which the two accounts say different things; pods that either does not know are left out."""
    by_name = {(pod.namespace, pod.name): pod for pod in pods.pods}
    for holding in said.containers:
        pod = by_name.get((holding.namespace, holding.pod))
        told = set(holding.devices.get(resource, ()))
        if pod is not None and told and (recorded := _recorded(holding, pod, checkpoint, resource)) != told:
            yield reason(
                Code.HOLDERS_DIFFER,
                container=f"{holding.namespace}/{holding.pod}/{holding.container}",
                told=", ".join(sorted(told)),
                recorded=", ".join(sorted(recorded)) or "nothing",
            )


def claimed_gpus(said: NodeHoldings | None, machine: Machine) -> frozenset[PciAddress]:
    """GPUs that containers have by resource claims, which the checkpoint of device plugins does not show."""
    return frozenset(one for holding in (said.containers if said else ()) for one in claimed_by(holding, machine))


def claimed_by(holding: ContainerHolding, machine: Machine) -> frozenset[PciAddress]:
    """GPUs that one container has so."""
    minors = {gpu.index: gpu.address for gpu in machine.gpus if gpu.index is not None}
    named = (_DEVICE.fullmatch(claim.device) for claim in holding.claimed if claim.driver == _DRIVER)
    return frozenset(minors[int(match[1])] for match in named if match and int(match[1]) in minors)


def _recorded(holding: ContainerHolding, pod: Pod, checkpoint: Checkpoint, resource: str) -> set[str]:
    uids = {pod.uid, pod.static_uid}
    entries = (one for one in checkpoint.of(resource) if one.pod in uids and one.container == holding.container)
    return {name for one in entries for name in one.names}
