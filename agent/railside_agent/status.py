"""What /readyz and /status answer, by the agent's present view. It must not change anything."""

from typing import Final

import msgspec

from railside_agent.configz import lack_of
from railside_agent.mode import ModeDecision
from railside_agent.own_node import NodeFacts
from railside_agent.pod_resources import Allocatable
from railside_agent.pods import Pods
from railside_agent.publication import Publication, hindrance
from railside_agent.seats import OfferedSeat
from railside_agent.usage import Usage
from railside_agent.view import PoolView, RegistrationState, View
from railside_proto.machine import Hca, Machine, PciAddress
from railside_proto.pool import Binding, Pair, Pool
from railside_proto.reasons import Code, Reason, reason
from railside_proto.record import KubeletFacts

_NO_DEVICE: Final = {Code.NO_DRIVER, Code.NO_RDMA_DEVICE}
"""Of functions that have no RDMA device."""


class SeatStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One seat and the HCA that it means now; ``name`` and ``device`` are None while the HCA is gone."""

    id: str
    numa_nodes: tuple[int, ...]
    held: bool
    foreign: bool
    listed_healthy: bool
    """What the kubelet is told."""
    hca: PciAddress | None
    name: str | None
    device: str | None
    reason: Reason | None


class HcaStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One HCA of the pool, and what is left of it."""

    address: PciAddress
    name: str
    zone: str
    """``n0`` for NUMA node 0, ``any`` for none."""
    pods: tuple[str, ...]
    """Who has it, by ``namespace/name`` where that is known, else by UID."""
    users: int
    """Held seats that mean it."""
    free: int
    """How many more containers may have it."""
    withheld: bool
    """Whether a container of another plugin has it, or may have it."""
    flaps: int
    """How often it fell ill."""
    reason: Reason | None
    """Why it must not come into new hands."""


class ContainerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A container that has started, and what it got."""

    pod: str | None
    """``namespace/name`` where that is known, else the UID."""
    seats: tuple[str, ...]
    hcas: tuple[PciAddress, ...]
    names: tuple[str | None, ...]
    pairs: tuple[Pair, ...]


class PoolStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One pool."""

    pool: Pool
    mode: ModeDecision
    hinted: bool
    registration: RegistrationState
    hcas: tuple[HcaStatus, ...]
    seats: tuple[SeatStatus, ...]
    containers: tuple[ContainerStatus, ...]


class Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole answer of /status."""

    version: str
    not_ready: tuple[str, ...]
    nothing_offered: Reason | None
    pools: tuple[PoolStatus, ...]
    node: NodeFacts
    pods_problem: str | None
    checkpoint_problem: str | None
    sources: dict[str, str]
    kubelet_allocatable: Allocatable | None
    """Healthy devices by resource and NUMA node, as the kubelet counts them."""
    kubelet_lacks: tuple[Reason, ...]
    """What this kubelet, older than most, does not tell or ask, and what follows."""
    kubelet: KubeletFacts
    """How it admits pods, by its own word."""
    record: Publication
    """What became of the node's record."""
    machine: Machine | None


def not_ready(view: View) -> tuple[str, ...]:
    """What is missing before the agent does its work; with nothing to offer it is ready, and says why not more."""
    if view.look_problem is not None:
        return (f"the machine could not be looked at: {view.look_problem}",)
    if view.machine is None:
        return ("the machine has not been looked at yet",)
    problems = (*map(_pool_problem, view.pools), hindrance(view.publication))
    return tuple(one for one in problems if one is not None)


def nothing_found(machine: Machine) -> Reason | None:
    """Why a machine has no HCA to offer; None when it has some."""
    if machine.hcas:
        return None
    devices = [one.reason for one in machine.excluded if one.reason.code not in _NO_DEVICE]
    if not devices:
        return reason(Code.NO_RDMA_DEVICES)
    told = "; ".join(why.sentence for why in devices)
    return reason(Code.NOTHING_TO_OFFER, count=str(len(devices)), devices=told)


def nothing_offered(view: View) -> Reason | None:
    """Why a node offers nothing new: no HCA, or nobody chose a mode; None when it offers some."""
    missing = nothing_found(view.machine) if view.machine else None
    if missing is not None or any(pool.mode.mode for pool in view.pools):
        return missing
    return next((pool.mode.reason for pool in view.pools), None)


def status(view: View) -> Status:
    """The answer of /status."""
    return Status(
        version=view.version,
        not_ready=not_ready(view),
        nothing_offered=nothing_offered(view),
        pools=tuple(_pool_status(pool, view) for pool in view.pools),
        node=view.node,
        pods_problem=view.pods.problem,
        checkpoint_problem=view.checkpoint_problem,
        sources=view.sources,
        kubelet_allocatable=view.holdings.allocatable if view.holdings else None,
        kubelet_lacks=kubelet_lacks(view),
        kubelet=view.kubelet,
        record=view.publication,
        machine=view.machine,
    )


def kubelet_lacks(view: View) -> tuple[Reason, ...]:
    """What this kubelet lacks, each once: pools have one and the same."""
    of_pools = (one for pool in view.pools for one in pool.lacks)
    return tuple(dict.fromkeys((*view.lacks, *lack_of(view.kubelet), *of_pools)))


def _pool_problem(pool: PoolView) -> str | None:
    if pool.offer.usage is None:
        return "no list was made yet: the disk has not told what pods hold"
    if not pool.wanted:
        return None
    if not pool.registration.registered:
        return pool.registration.detail
    if pool.registration.streams == 0:
        return "the kubelet took the registration but does not listen to the list"
    return None


def _pool_status(view: PoolView, whole: View) -> PoolStatus:
    hcas = {hca.address: hca for hca in whole.machine.hcas} if whole.machine else {}
    used = view.offer.usage
    return PoolStatus(
        pool=view.pool,
        mode=view.mode,
        hinted=used.hinted if used else False,
        registration=view.registration,
        hcas=_hcas(used, whole.pods) if used else (),
        seats=tuple(_seat_status(one, hcas.get(one.hca) if one.hca else None) for one in view.offer.seats),
        containers=tuple(_container(one, hcas, whole.pods) for one in (used.live if used else ())),
    )


def _hcas(used: Usage, pods: Pods) -> tuple[HcaStatus, ...]:
    holders: dict[PciAddress, list[str]] = {}
    for binding in used.live:
        for address in binding.hcas:
            holders.setdefault(address, []).append(_pod_name(binding, pods) or "unknown")
    return tuple(
        HcaStatus(
            address=one.hca.address,
            name=one.hca.name,
            zone=one.zone,
            pods=tuple(sorted(set(holders.get(one.hca.address, ())))),
            users=one.users,
            free=one.free,
            withheld=one.withheld,
            flaps=one.flaps,
            reason=one.unsound,
        )
        for one in used.hcas
    )


def _seat_status(offered: OfferedSeat, hca: Hca | None) -> SeatStatus:
    return SeatStatus(
        id=offered.seat.id,
        numa_nodes=offered.seat.numa_nodes,
        held=offered.held,
        foreign=offered.foreign,
        listed_healthy=offered.healthy,
        hca=offered.hca,
        name=hca.name if hca else None,
        device=hca.uverbs.name if hca else None,
        reason=offered.reason,
    )


def _container(binding: Binding, hcas: dict[PciAddress, Hca], pods: Pods) -> ContainerStatus:
    names = (hcas.get(address) for address in binding.hcas)
    return ContainerStatus(
        pod=_pod_name(binding, pods),
        seats=binding.seats,
        hcas=binding.hcas,
        names=tuple(hca.name if hca else None for hca in names),
        pairs=binding.pairs,
    )


def _pod_name(binding: Binding, pods: Pods) -> str | None:
    pod = pods.by_uid.get(binding.pod or "")
    return f"{pod.namespace}/{pod.name}" if pod else binding.pod
