"""A container that is about to start, by the kubelet's checkpoint: whose it is, and which GPUs it has.

It must not choose HCAs.
"""

from collections.abc import Iterable

import msgspec

from railside_agent.gpu_ids import locate
from railside_agent.holders import Entry
from railside_agent.rules import Rules
from railside_agent.seat_names import order
from railside_agent.situation import Situation
from railside_proto.machine import Gpu, Machine, PciAddress
from railside_proto.pool import Binding, Pool
from railside_proto.resource_patterns import matching


class ContainerStart(msgspec.Struct, frozen=True, kw_only=True):
    """What the checkpoint tells of a container with just these seats."""

    seats: tuple[str, ...]
    pod: str | None = None
    """UID; None where no entry, or entries of more than one pod, have these seats."""
    containers: tuple[str, ...] = ()
    """Init and main containers of one pod may have the same seats, and cannot be told apart."""
    gpus: tuple[Gpu, ...] = ()
    """GPUs of all of ``containers``, by address."""
    unplaced_gpus: tuple[str, ...] = ()
    """Their ids that name no GPU of this machine, such as those of MIG slices."""
    holders: tuple[str, ...] = ()
    """UIDs of all pods that hold one of the seats: more than one means that the kubelet dealt it twice."""

    def follows(self, binding: Binding) -> bool:
        """Whether ``binding`` is of a container of this pod that had some of the seats before, and has ended.

        Of what an init container had the kubelet gives the later ones what they need (devicesToReuse); those begin
        when it has ended, and it begins anew only when all of them have.
        """
        before, now = set(binding.seats), set(self.seats)
        return self.pod is not None and self.pod == binding.pod and before != now and not before.isdisjoint(now)


def container_start(seats: tuple[str, ...], now: Situation, pool: Pool, rules: Rules) -> ContainerStart:
    """The container of ``seats``. The kubelet writes its checkpoint before it calls PreStartContainer.

    In doubt nothing is told of it: an old checkpoint may name the pod that had the seats before.
    """
    if now.doubtful:
        return ContainerStart(seats=tuple(sorted(seats, key=order)))
    live = now.living
    ours = [one for one in live if one.resource == pool.resource]
    entries = [one for one in ours if set(one.names) == set(seats)]
    pods = {one.pod for one in entries}
    holders = {one.pod for one in ours if not set(one.names).isdisjoint(seats)}
    pod = pods.pop() if len(pods) == 1 else None
    containers = tuple(sorted(one.container for one in entries)) if pod else ()
    found = locate(_gpu_ids(live, pod, containers, rules), now.machine or Machine())
    gpus = {one.gpu.address: one.gpu for one in found if one.gpu}
    return ContainerStart(
        # The kubelet names them in any order; what a container is told does not change with it.
        seats=tuple(sorted(seats, key=order)),
        pod=pod,
        containers=containers,
        gpus=tuple(gpus[address] for address in sorted(gpus)),
        unplaced_gpus=tuple(one.id for one in found if one.gpu is None),
        holders=tuple(sorted(holders)),
    )


def held_gpus(now: Situation, rules: Rules) -> frozenset[PciAddress]:
    """GPUs in anybody's hands."""
    entries = (one for one in now.living if matching(one.resource, rules.gpu_resources))
    found = locate((name for one in entries for name in one.names), now.machine or Machine())
    return now.claimed_gpus | {one.gpu.address for one in found if one.gpu}


def _gpu_ids(entries: Iterable[Entry], pod: str | None, containers: tuple[str, ...], rules: Rules) -> list[str]:
    return [
        name
        for one in entries
        if one.pod == pod and one.container in containers and matching(one.resource, rules.gpu_resources)
        for name in one.names
    ]
