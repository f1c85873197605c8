"""Judges the demo by what its containers saw: who had which HCA, how near, and whether anybody lost one.

Everything is passed in. It must not take the agent's word for anything, nor print.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from railside_cli.demo.hardware import Card, Hardware, nearest_classes, path
from railside_cli.demo.sight import Seen
from railside_proto.machine import PathClass


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """What held on the node when a container started."""

    share: int
    """How many containers may have one HCA, by the node's label."""
    others: Mapping[str, Seen]
    """What every other pod sees, by name."""
    kept_out: frozenset[str] = frozenset()
    """Names of HCAs that nobody new may get: dead, unreadable, or another plugin's."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What came out: everything that was seen, and everything that should not have been."""

    starts: int
    pairs: int
    """GPUs that were dealt together with an HCA, at their pod's first start."""
    nearest: int
    """How many of them met one on their own switch."""
    moved: int
    """GPUs whose pod got another HCA at a later start."""
    faults: tuple[str, ...]


class Witness:
    """Remembers what was seen on one machine."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._seen: dict[str, Seen] = {}
        self._faults: list[str] = []
        self._starts = self._pairs = self._nearest = self._moved = 0

    @property
    def verdict(self) -> Verdict:
        """So far."""
        return Verdict(
            starts=self._starts,
            pairs=self._pairs,
            nearest=self._nearest,
            moved=self._moved,
            faults=tuple(dict.fromkeys(self._faults)),
        )

    @property
    def known(self) -> tuple[str, ...]:
        """Pods that have started and not ended."""
        return tuple(self._seen)

    def expect(self, holds: object, sentence: str) -> None:
        """Note ``sentence`` as a fault unless ``holds``."""
        if not holds:
            self._faults.append(sentence)

    def started(self, now: Seen, asked: int, moment: Moment) -> None:
        """A container has started, for the first time or again, and asked for ``asked`` HCAs."""
        before = self._seen.get(now.pod)
        self._seen[now.pod] = now
        self._starts += 1
        self._faults += _count_faults(now, asked)
        self._faults += _share_faults(now, moment)
        if before is not None and before.hcas == now.hcas:
            return
        if before is not None:
            self._faults += _loss_faults(before, now, moment)
        self._faults += _hand_faults(now, moment)
        if now.gpus:
            self._judge_pairs(now, moment, again=before is not None)

    def ended(self, pod: str) -> None:
        """A pod has ended."""
        self._seen.pop(pod, None)

    def still(self, now: Seen | None, pod: str) -> None:
        """A pod that was left alone: it must run on what it had."""
        before = self._seen.get(pod)
        if now is None or (before is not None and now.hcas != before.hcas):
            self._faults.append(f"{pod} lost what it had")

    def _judge_pairs(self, now: Seen, moment: Moment, *, again: bool) -> None:
        had = tuple(sorted(path(one.gpu, one.hca) for one in now.told))
        best = nearest_classes(now.gpus, _choice(now, moment, self._hardware))
        if again:
            self._moved += len(had)
        else:
            self._pairs += len(had)
            self._nearest += had.count(PathClass.PIX)
        self._faults += _pair_faults(now)
        if had != best:
            named = " ".join(one.name for one in best)
            self._faults.append(f"{now.pod} could have had its HCAs at {named}")


def _count_faults(now: Seen, asked: int) -> Iterator[str]:
    if len(now.hcas) != asked:
        yield f"{now.pod} asked for {asked} and sees {len(now.hcas)} HCAs"


def _share_faults(now: Seen, moment: Moment) -> Iterator[str]:
    for hca in now.hcas:
        users = [now.pod, *users_of(hca, moment.others)]
        if len(users) > moment.share:
            yield f"{hca.name} is in the hands of {' and '.join(users)}, and {moment.share} may have it"


def _loss_faults(before: Seen, now: Seen, moment: Moment) -> Iterator[str]:
    for hca in before.hcas:
        if hca not in now.hcas and hca.name not in moment.kept_out:
            yield f"{now.pod} lost {hca.name}, which was sound"


def _hand_faults(now: Seen, moment: Moment) -> Iterator[str]:
    for hca in now.hcas:
        if hca.name in moment.kept_out:
            yield f"{now.pod} got {hca.name}, which nobody new may get"


def _pair_faults(now: Seen) -> Iterator[str]:
    """What the container reads must be true by the machine's own tree, and about its own cards."""
    if len(now.told) != min(len(now.gpus), len(now.hcas)):
        yield f"{now.pod} reads of {len(now.told)} pairs"
    for one in now.told:
        true = path(one.gpu, one.hca).name
        if one.path != true:
            yield f"{now.pod} reads {one.path} of {one.gpu.name} and {one.hca.name}, which is {true}"
        if one.gpu not in now.gpus or one.hca not in now.hcas:
            yield f"{now.pod} reads of {one.gpu.name} and {one.hca.name}, which it has not got"


def _choice(now: Seen, moment: Moment, hardware: Hardware) -> list[Card]:
    """HCAs that the pod could have had: of the NUMA nodes that the kubelet chose for it."""
    zones = {one.zone for one in now.hcas}
    return [
        hca
        for hca in hardware.hcas
        if hca.zone in zones
        and hca.name not in moment.kept_out
        and len(users_of(hca, moment.others)) < moment.share
    ]


def users_of(hca: Card, pods: Mapping[str, Seen] | Collection[Seen]) -> list[str]:
    """Names of those of ``pods`` that have ``hca``."""
    every: Iterable[Seen] = pods.values() if isinstance(pods, Mapping) else pods
    return sorted(one.pod for one in every if hca in one.hcas)
