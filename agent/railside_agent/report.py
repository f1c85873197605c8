"""Puts a node's record together from all that the agent knows of it. Equal knowledge gives equal records.

It must not ask anybody, hold a time, or number the record: who writes it does.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from railside_agent.cross_check import claimed_gpus
from railside_agent.dealt_gpus import GpuId, counts, gpu_ids
from railside_agent.holder_records import Hands, Places
from railside_agent.holders import Checkpoint, Entry
from railside_agent.pod_resources import Allocatable, NodeHoldings
from railside_agent.seat_names import ANYWHERE, node_of
from railside_agent.seats import OfferedSeat
from railside_agent.usage import HcaUse, Usage
from railside_agent.view import PoolView, View
from railside_proto.cpu_list import cpus
from railside_proto.machine import Machine, NumaNode, PciAddress, by_address
from railside_proto.reasons import Code
from railside_proto.record import (
    Count,
    DeviceKind,
    DeviceRecord,
    ExcludedRecord,
    NumaRecord,
    PoolRecord,
    Record,
)


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What a record rests on."""

    view: View
    checkpoint: Checkpoint
    """The last one of the kubelet's that made sense."""
    gpu_resources: tuple[str, ...]
    """Patterns of the resources whose ids are GPUs."""
    boot_id: str
    agent_uid: str = ""

    @property
    def living(self) -> tuple[Entry, ...]:
        """What the checkpoint tells of containers, those of pods that are known to be over left out."""
        return tuple(one for one in self.checkpoint.entries if one.pod not in self.view.pods.over)


def report(known: Known) -> Record | None:
    """The record of what is ``known``; None before the node, its machine and what pods hold were seen.

    None, too, while a list is of another look at the machine than the last: it is being made anew.
    """
    view = known.view
    machine = view.machine
    if machine is None or not view.node.seen or any(not _is_of(pool, machine) for pool in view.pools):
        return None
    allocatable = view.holdings.allocatable if view.holdings else None
    gpus = gpu_ids(machine, known.checkpoint, known.living, allocatable, known.gpu_resources)
    pools = sorted(view.pools, key=lambda one: one.pool.resource)
    of_hcas = (count for pool in pools for count in _counts(pool))
    every = (*of_hcas, *counts(gpus, machine, view.node.capacity))
    hands = _hands(known, machine, gpus)
    return Record(
        node_uid=view.node.uid,
        boot_id=known.boot_id,
        agent_uid=known.agent_uid,
        version=view.version,
        kubelet=view.kubelet,
        pools=tuple(map(_pool, pools)),
        numa_nodes=tuple(_numa(one, allocatable, view.holdings) for one in machine.numa_nodes),
        counts=tuple(sorted(every, key=lambda one: (one.resource, one.numa_nodes))),
        devices=_devices(view, machine, gpus),
        holders=tuple(hands.records()),
        pods=tuple(hands.pods()),
        excluded=_excluded(machine),
    )


def _is_of(view: PoolView, machine: Machine) -> bool:
    """Whether the list of a pool was made when the machine had these HCAs."""
    used = view.offer.usage
    return used is not None and [one.hca for one in used.hcas] == [
        one for one in machine.hcas if view.pool.takes(one)
    ]


def _pool(view: PoolView) -> PoolRecord:
    used = view.offer.usage
    return PoolRecord(
        resource=view.pool.resource,
        mode=view.mode.mode,
        share=view.pool.share(view.mode.mode),
        registered=view.registration.registered,
        hcas=len(used.hcas) if used else 0,
        free=sum(_is_free(one) for one in view.offer.seats),
    )


def _is_free(one: OfferedSeat) -> bool:
    return one.healthy and not one.held


def _counts(view: PoolView) -> Iterator[Count]:
    """Just what the list says, as the kubelet counts by it."""
    seats = view.offer.seats
    listed = Counter(one.seat.numa_nodes for one in seats)
    held = Counter(one.seat.numa_nodes for one in seats if one.held)
    free = Counter(one.seat.numa_nodes for one in seats if _is_free(one))
    for nodes, count in listed.items():
        yield Count(
            resource=view.pool.resource, numa_nodes=nodes, listed=count, held=held[nodes], free=free[nodes]
        )


def _numa(node: NumaNode, allocatable: Allocatable | None, said: NodeHoldings | None) -> NumaRecord:
    own = cpus(node.cpus)
    can_give = allocatable.cpus if allocatable else ()
    exclusive = {cpu for one in (said.containers if said else ()) for cpu in one.cpus}
    return NumaRecord(
        number=node.number,
        cpus=node.cpus,
        distances=node.distances,
        # The kubelet tells none where its CPU manager is not static.
        allocatable_cpus=len(own.intersection(can_give)) if can_give else None,
        exclusive_cpus=len(own & exclusive),
    )


def _devices(view: View, machine: Machine, gpus: Iterable[GpuId]) -> tuple[DeviceRecord, ...]:
    hcas = (_hca(pool.pool.resource, one, used, machine) for pool, used in _used(view) for one in used.hcas)
    found = (*hcas, *_gpus(machine, gpus, claimed_gpus(view.holdings, machine)))
    return tuple(sorted(found, key=lambda one: by_address(one.address)))


def _used(view: View) -> Iterator[tuple[PoolView, Usage]]:
    return ((pool, pool.offer.usage) for pool in view.pools if pool.offer.usage is not None)


def _hca(resource: str, use: HcaUse, used: Usage, machine: Machine) -> DeviceRecord:
    everywhere = tuple(node.number for node in machine.numa_nodes) if used.hinted else ()
    foreign = Code.SEAT_FOREIGN if use.withheld else None
    return DeviceRecord(
        address=use.hca.address,
        path=use.hca.path,
        numa_node=use.hca.numa_node,
        told_by_file=use.hca.told_by_file,
        kind=DeviceKind.HCA,
        resource=resource,
        name=use.hca.name,
        kubelet_numa_nodes=everywhere if use.zone == ANYWHERE else node_of(use.zone),
        free=use.free,
        held=use.users,
        reason=use.unsound.code if use.unsound else foreign,
    )


def _gpus(machine: Machine, ids: Iterable[GpuId], claimed: frozenset[PciAddress]) -> Iterator[DeviceRecord]:
    by_gpu: dict[PciAddress, list[GpuId]] = {}
    for one in ids:
        if one.gpu is not None:
            by_gpu.setdefault(one.gpu, []).append(one)
    for gpu in machine.gpus:
        own = by_gpu.get(gpu.address, [])
        is_claimed = gpu.address in claimed
        yield DeviceRecord(
            address=gpu.address,
            path=gpu.path,
            numa_node=gpu.numa_node,
            told_by_file=gpu.told_by_file,
            kind=DeviceKind.GPU,
            resource=min((one.resource for one in own), default=""),
            name=gpu.uuid or "",
            kubelet_numa_nodes=tuple(sorted({node for one in own for node in one.numa_nodes})),
            free=0 if is_claimed else sum(one.healthy and not one.held for one in own),
            held=sum(one.held for one in own) + is_claimed,
        )


def _hands(known: Known, machine: Machine, gpus: tuple[GpuId, ...]) -> Hands:
    view = known.view
    seats = {
        (pool.pool.resource, one.seat.id): one.seat.numa_nodes for pool in view.pools for one in pool.offer.seats
    }
    places: Places = seats | {(one.resource, one.id): one.numa_nodes for one in gpus}
    hands = Hands(places, gpus, view.pods)
    hands.dealt(known.living)
    for pool, used in _used(view):
        hands.bound(pool.pool.resource, used.live)
    hands.claimed(view.holdings, machine)
    return hands


def _excluded(machine: Machine) -> tuple[ExcludedRecord, ...]:
    told = (
        ExcludedRecord(name=one.name, code=one.reason.code, sentence=one.reason.sentence)
        for one in machine.excluded
    )
    return tuple(sorted(told, key=lambda one: (one.name, one.sentence)))
