"""Which HCAs serve which GPUs: the nearest choice that the zones of the seats leave.

One code for the agent's binding and the extender's fit and score. It must not know pods, health or seats: whoever
calls says which HCAs may be chosen, and how many of each zone must be.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from railside_proto.assignment import assign
from railside_proto.machine import Function, PathClass, PciAddress, path_class
from railside_proto.pool import Pair

_CLASSES: Final = len(PathClass)

F = TypeVar("F", bound=Function)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """An HCA that may be chosen."""

    hca: Function
    zone: str
    must: bool = False
    """Whether it is chosen already, and only its GPU is looked for."""
    load: int = 0
    """How many containers it serves: among equally near ones the least shared is taken."""
    wanted: int = 0
    """How many GPUs that nobody holds are nearest to it: who needs no such place leaves it to them."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The HCAs chosen, by zone in the order of their addresses, and the GPUs that they serve."""

    hcas: dict[str, tuple[PciAddress, ...]]
    pairs: tuple[Pair, ...]

    @property
    def classes(self) -> tuple[PathClass, ...]:
        """Path classes of the pairs, nearest first: the smaller of two choices for the same GPUs is the nearer."""
        return tuple(sorted(pair.path for pair in self.pairs))


def choose(gpus: Sequence[Function], candidates: Sequence[Candidate], needed: Mapping[str, int]) -> Choice | None:
    """``needed`` distinct HCAs of each zone, as near to ``gpus`` as can be; None where a zone has too few.

    As many pairs as possible are PIX, of those choices as many as possible PXB, and so on. Each HCA serves one GPU
    at most: with more GPUs than HCAs the nearest pairs count, with more HCAs than GPUs the rest are those that are
    least shared and least wanted by others.
    """
    usable = [one for one in candidates if needed.get(one.zone, 0)]
    if any(_count(usable, zone) < count or _musts(usable, zone) > count for zone, count in needed.items()):
        return None
    problem = _Problem(gpus, _that_can_matter(gpus, usable, sum(needed.values())), needed)
    return problem.choice(assign(problem.costs()))


def nearest(gpu: Function, hcas: Sequence[F]) -> tuple[F, ...]:
    """Those of ``hcas`` that no other is nearer to ``gpu`` than."""
    paths = [path_class(gpu, hca) for hca in hcas]
    best = min(paths, default=None)
    return tuple(hca for hca, path in zip(hcas, paths, strict=True) if path is best)


def _that_can_matter(gpus: Sequence[Function], candidates: Sequence[Candidate], chosen: int) -> list[Candidate]:
    """Those that some best choice can need: of each zone, for each GPU and for none, as many as are chosen.

    The others of a choice take fewer than that many, so one of them is always left; and a card with hundreds of
    virtual functions costs no more than one with a few.
    """
    liking = _preferences(candidates)
    kept = {index for index, one in enumerate(candidates) if one.must}
    for zone in {one.zone for one in candidates}:
        of_zone = [index for index, one in enumerate(candidates) if one.zone == zone]
        kept.update(sorted(of_zone, key=lambda index: liking[index])[:chosen])
        for gpu in gpus:
            near = {index: path_class(gpu, candidates[index].hca) for index in of_zone}
            kept.update(sorted(of_zone, key=lambda index: (near[index], liking[index]))[:chosen])
    return [candidates[index] for index in sorted(kept)]


def _count(candidates: Sequence[Candidate], zone: str) -> int:
    return sum(one.zone == zone for one in candidates)


def _musts(candidates: Sequence[Candidate], zone: str) -> int:
    return sum(one.must for one in candidates if one.zone == zone)


class _Problem:
    """The choice as an assignment.

    Rows: each GPU; a filler for each HCA that is needed beyond the GPUs; in each zone an idler for each HCA that
    is not needed. Columns: each HCA; a bench for each GPU beyond the HCAs that are needed.
    """

    def __init__(
        self, gpus: Sequence[Function], candidates: Sequence[Candidate], needed: Mapping[str, int]
    ) -> None:
        total = sum(needed.values())
        self._gpus = gpus
        self._candidates = candidates
        self._fillers = max(0, total - len(gpus))
        self._benches = max(0, len(gpus) - total)
        self._idlers = [
            zone for zone, count in sorted(needed.items()) for _ in range(_count(candidates, zone) - count)
        ]
        self._preferences = _preferences(candidates)
        self._step = (sum(self._preferences) + 1) * (len(candidates) + 1)
        self._never = self._step * (total + 2) ** (_CLASSES + 1)
        self._base = total + 1

    def costs(self) -> list[list[int]]:
        return [
            *(self._gpu_row(gpu) for gpu in self._gpus),
            *([*self._preferences, *[self._never] * self._benches] for _ in range(self._fillers)),
            *(self._idler_row(zone) for zone in self._idlers),
        ]

    def choice(self, columns: Sequence[int]) -> Choice:
        """What the assignment means."""
        chosen = [
            column for column in columns[: len(self._gpus) + self._fillers] if column < len(self._candidates)
        ]
        by_zone: dict[str, list[PciAddress]] = {}
        for column in sorted(chosen, key=lambda one: self._candidates[one].hca.address):
            candidate = self._candidates[column]
            by_zone.setdefault(candidate.zone, []).append(candidate.hca.address)
        pairs = (
            _pair(gpu, self._candidates[column].hca)
            for gpu, column in zip(self._gpus, columns, strict=False)
            if column < len(self._candidates)
        )
        return Choice(hcas={zone: tuple(hcas) for zone, hcas in by_zone.items()}, pairs=tuple(pairs))

    def _gpu_row(self, gpu: Function) -> list[int]:
        near = (self._nearness(path_class(gpu, one.hca)) for one in self._candidates)
        hcas = [cost - gain for cost, gain in zip(self._preferences, near, strict=True)]
        return [*hcas, *[0] * self._benches]

    def _nearness(self, path: PathClass) -> int:
        """One pair of a class is worth more than all pairs of the next together."""
        worth: int = self._base ** (_CLASSES - path)
        return self._step * worth

    def _idler_row(self, zone: str) -> list[int]:
        may = (one.zone == zone and not one.must for one in self._candidates)
        return [*(0 if it_may else self._never for it_may in may), *[self._never] * self._benches]


def _preferences(candidates: Sequence[Candidate]) -> list[int]:
    """Costs that decide among equally near HCAs: load before wanted before the order of addresses."""
    count = len(candidates) + 1
    most_wanted = max((one.wanted for one in candidates), default=0) + 1
    order = sorted(range(len(candidates)), key=lambda one: candidates[one].hca.address)
    rank = {index: position for position, index in enumerate(order)}
    unit = count * count
    return [
        (one.load * most_wanted * count + one.wanted) * unit + rank[index] for index, one in enumerate(candidates)
    ]


def _pair(gpu: Function, hca: Function) -> Pair:
    return Pair(gpu=gpu.address, hca=hca.address, path=path_class(gpu, hca))
