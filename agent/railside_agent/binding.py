"""Which HCAs a container's seats mean at this start: as near to its GPUs as the free ones allow.

A seat that its pod's container has started with before keeps its HCA while that is sound. It must not touch
files, and must not remember: what was bound before is passed in.
"""

from collections import Counter
from collections.abc import Collection, Iterable

import msgspec

from railside_agent.container_start import ContainerStart
from railside_agent.usage import HcaUse, Usage
from railside_proto.machine import Gpu, Hca, PciAddress, path_class
from railside_proto.pairing import Candidate, choose, nearest
from railside_proto.pool import Binding, Pair
from railside_proto.reasons import Code, Reason, reason


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The HCAs of a container, in the order of its seats, as the kernel names and numbers them now."""

    seats: tuple[str, ...]
    hcas: tuple[Hca, ...]
    pod: str | None = None
    pairs: tuple[Pair, ...] = ()

    @property
    def binding(self) -> Binding:
        """What the books keep of it."""
        addresses = tuple(hca.address for hca in self.hcas)
        guids = tuple(hca.node_guid for hca in self.hcas)
        return Binding(seats=self.seats, hcas=addresses, pod=self.pod, pairs=self.pairs, guids=guids)


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The container must not start now; the kubelet tries again by itself in 11 to 15 seconds."""

    reason: Reason


def bind(
    start: ContainerStart,
    used: Usage,
    held_gpus: frozenset[PciAddress],
    gpus: Iterable[Gpu],
    *,
    dealt: Binding | None = None,
    gpus_come: bool = False,
) -> Bound | Refused:
    """The HCAs that the seats of ``start`` mean. ``gpus`` are all of the machine, ``held_gpus`` those in hands.

    Where they were ``dealt`` for good, those are meant, and only the GPUs that they serve are looked for.
    Otherwise distinct HCAs come before second shares of one, nearness to the container's GPUs before less sharing,
    and that before leaving the places beside GPUs that nobody holds yet to others. Where ``gpus_come`` that cannot
    be told yet, those are the places to take.
    """
    holders = _holders(start, used)
    if len(holders) > 1:
        # Whose start this is cannot be told, and an HCA must not come into two hands.
        seats = ", ".join(start.seats)
        return Refused(reason=reason(Code.DEALT_TWICE, seat=seats, pods=" and ".join(holders)))
    kept = dict(zip(dealt.seats, dealt.hcas, strict=True)) if dealt else _kept(start, used)
    zones = {hca: used.zone(seat) for seat, hca in kept.items()}
    plans = [_Plan(zone, seats, kept, zones, used) for zone, seats in _by_zone(start.seats, used)]
    for plan in plans:
        if plan.lacking:
            return Refused(reason=_no_room(plan, used))
    choice = choose(
        start.gpus,
        _candidates(used, zones, held_gpus, gpus, gpus_come=gpus_come),
        {one.zone: one.distinct for one in plans},
    )
    if choice is None:
        raise AssertionError("every zone has room, so there is a choice")
    by_seat = {seat: hca for plan in plans for seat, hca in plan.filled(choice.hcas.get(plan.zone, ())).items()}
    hcas = {one.hca.address: one.hca for one in used.hcas}
    return Bound(
        seats=start.seats,
        hcas=tuple(hcas[by_seat[seat]] for seat in start.seats),
        pod=start.pod,
        pairs=choice.pairs,
    )


def _holders(start: ContainerStart, used: Usage) -> list[str]:
    """Every pod that has one of the seats: by the checkpoint, or because it runs on what it was bound to."""
    bound = (one.pod for one in used.live if one.pod and not set(one.seats).isdisjoint(start.seats))
    return sorted({*start.holders, *bound})


def farther_than_needed(bound: Bound, start: ContainerStart, used: Usage) -> Reason | None:
    """The first GPU that is served from farther off than this node could, and what stood in the way."""
    gpus = {gpu.address: gpu for gpu in start.gpus}
    for pair in bound.pairs:
        best = nearest(gpus[pair.gpu], [one.hca for one in used.hcas])
        if best and (path := path_class(gpus[pair.gpu], best[0])) < pair.path:
            return reason(
                Code.FARTHER_THAN_NEEDED,
                gpu=pair.gpu,
                path=pair.path.name,
                best=path.name,
                obstacle=_obstacle(best, bound, used),
            )
    return None


def _obstacle(best: tuple[Hca, ...], bound: Bound, used: Usage) -> str:
    zones = {used.zone(seat) for seat in bound.seats}
    uses = [one for one in used.hcas if one.hca in best]
    if not any(one.zone in zones for one in uses):
        return "on another NUMA node than the seats that the kubelet dealt"
    if all(one.unsound for one in uses):
        return "not sound"
    return "in other hands"


def _kept(start: ContainerStart, used: Usage) -> dict[str, PciAddress]:
    """The HCA of each seat that this pod has started with before, as far as it is sound.

    Where nobody knows whether it was this pod, only an HCA that others have left room on: it may have been given
    to somebody else since.
    """
    sound = {one.hca.address for one in used.hcas if not one.unsound or one.unsound.code is Code.RECOVERING}
    own = _bound_by([one for one in used.live if one.pod is not None and one.pod == start.pod], start, sound)
    perhaps = _bound_by([one for one in used.live if one.pod is None or start.pod is None], start, sound)
    mine = Counter((perhaps | own).values())
    room = {
        one.hca.address
        for one in used.hcas
        if not one.withheld and one.users - mine[one.hca.address] < max(1, used.share)
    }
    return {seat: hca for seat, hca in perhaps.items() if hca in room} | own


def _bound_by(
    bindings: Iterable[Binding], start: ContainerStart, sound: Collection[PciAddress]
) -> dict[str, PciAddress]:
    bound = {seat: hca for one in bindings for seat, hca in zip(one.seats, one.hcas, strict=False)}
    return {seat: bound[seat] for seat in start.seats if bound.get(seat) in sound}


def _by_zone(seats: tuple[str, ...], used: Usage) -> list[tuple[str, list[str]]]:
    by_zone: dict[str, list[str]] = {}
    for seat in seats:
        by_zone.setdefault(used.zone(seat), []).append(seat)
    return sorted(by_zone.items())


class _Plan:
    """The seats of one zone, and the shares that could serve them."""

    def __init__(
        self,
        zone: str,
        seats: list[str],
        kept: dict[str, PciAddress],
        zones: dict[PciAddress, str],
        used: Usage,
    ) -> None:
        """``zones`` are those for which the kept HCAs are chosen: they may have moved since they were bound."""
        self.zone = zone
        self._zones = zones
        self._kept = {seat: kept[seat] for seat in seats if seat in kept}
        self._open = [seat for seat in seats if seat not in kept]
        self._uses = [one for one in used.hcas if one.zone == zone and one.free]

    @property
    def lacking(self) -> int:
        """How many seats no share is left for."""
        return max(0, len(self._open) - sum(one.free for one in self._uses))

    @property
    def distinct(self) -> int:
        """How many different HCAs are chosen for the zone: one for each seat, as far as there are so many."""
        kept = sum(zone == self.zone for zone in self._zones.values())
        fresh = sum(one.hca.address not in self._zones for one in self._uses)
        return kept + min(len(self._open), fresh)

    def filled(self, chosen: tuple[PciAddress, ...]) -> dict[str, PciAddress]:
        """The HCA of each seat: kept, chosen, and where those do not suffice the least shared again."""
        fresh = [hca for hca in chosen if hca not in self._zones]
        return self._kept | dict(zip(self._open, [*fresh, *self._second_shares(fresh)], strict=False))

    def _second_shares(self, fresh: list[PciAddress]) -> list[PciAddress]:
        free = {one.hca.address: one.free - (one.hca.address in fresh) for one in self._uses}
        load = {one.hca.address: one.users + (one.hca.address in fresh) for one in self._uses}
        shares: list[PciAddress] = []
        for _ in range(len(self._open) - len(fresh)):
            least = min((hca for hca in free if free[hca]), key=lambda hca: (load[hca], hca))
            free[least] -= 1
            load[least] += 1
            shares.append(least)
        return shares


def _candidates(
    used: Usage,
    zones: dict[PciAddress, str],
    held_gpus: frozenset[PciAddress],
    gpus: Iterable[Gpu],
    *,
    gpus_come: bool,
) -> list[Candidate]:
    every = [one.hca for one in used.hcas]
    # Whoever has no GPUs leaves the places of free ones to others; whose GPUs are not known, those of held ones.
    others = [gpu for gpu in gpus if (gpu.address in held_gpus) == gpus_come]
    wanted = Counter(hca.address for gpu in others for hca in nearest(gpu, every))
    return [
        Candidate(
            hca=one.hca,
            zone=zones.get(one.hca.address, one.zone),
            must=one.hca.address in zones,
            load=one.users,
            wanted=wanted[one.hca.address],
        )
        for one in used.hcas
        if one.free or one.hca.address in zones
    ]


def _no_room(plan: _Plan, used: Usage) -> Reason:
    states = [f"{one.hca.name} {_state(one)}" for one in used.hcas if one.zone == plan.zone]
    detail = ", ".join(states) or "the zone has no HCA"
    return reason(Code.NO_FREE_HCA, zone=plan.zone, count=str(plan.lacking), detail=detail)


def _state(one: HcaUse) -> str:
    if one.unsound:
        return f"is not sound ({one.unsound.code})"
    return "is held by another plugin's pod" if one.withheld else f"serves {one.users}"
