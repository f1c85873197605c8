"""The machine of the demo as its manifest tells it: where each HCA and GPU sits, and how near they could meet.

It is the demo's own measure of what a container got. It must not ask the agent, nor read what the agent wrote.
"""

from collections.abc import Collection, Iterable
from fractions import Fraction
from itertools import groupby, permutations
from math import comb
from typing import Final

import msgspec

from railside_proto.machine import Function, LinkLayer, PathClass, PciAddress, PortState, path_class
from railside_sim.parts import FunctionPart, Manifest

_SOUND: Final = (LinkLayer.INFINIBAND, PortState.ACTIVE)

Classes = tuple[PathClass, ...]


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """An HCA, or a GPU: ``name`` is what people call it, ``key`` what a container knows it by."""

    name: str
    key: str
    """The name of an HCA's device node; a GPU's UUID."""
    place: Function

    @property
    def zone(self) -> int:
        """Its NUMA node; -1 where nobody knows."""
        return -1 if self.place.numa_node is None else self.place.numa_node


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """What hangs on one PCIe switch, as far as it makes a pair."""

    gpu: Card | None = None
    hca: Card | None = None


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """Sound InfiniBand HCAs, and GPUs, each in the manifest's order."""

    hcas: tuple[Card, ...]
    gpus: tuple[Card, ...]

    def hca(self, key: str) -> Card:
        """The HCA with the device node ``key``. Raises KeyError."""
        return {one.key: one for one in self.hcas}[key]

    def called(self, name: str) -> Card:
        """The HCA called ``name``. Raises KeyError."""
        return {one.name: one for one in self.hcas}[name]

    def gpu(self, key: str) -> Card:
        """The GPU with the UUID ``key``. Raises KeyError."""
        return {one.key: one for one in self.gpus}[key]

    def zones(self) -> dict[int, tuple[Column, ...]]:
        """The pairs of each NUMA node: each HCA with the GPU on its switch, then GPUs that have none."""
        columns = sorted(self._columns(), key=_zone)
        return {zone: tuple(group) for zone, group in groupby(columns, key=_zone)}

    def chance(self, gpus: Iterable[Card], count: int) -> Fraction:
        """How many of ``gpus`` would meet an HCA of their switch, if ``count`` of their NUMA node were drawn."""
        return sum((self._odds(gpu, count) for gpu in gpus), Fraction(0))

    def _odds(self, gpu: Card, count: int) -> Fraction:
        there = [hca for hca in self.hcas if hca.zone == gpu.zone]
        far = sum(path(gpu, hca) > PathClass.PIX for hca in there)
        ways = comb(len(there), count)
        return 1 - Fraction(comb(far, count), ways) if ways else Fraction(0)

    def _columns(self) -> Iterable[Column]:
        lone = list(self.gpus)
        for hca in self.hcas:
            beside = next((gpu for gpu in lone if path(gpu, hca) is PathClass.PIX), None)
            if beside is not None:
                lone.remove(beside)
            yield Column(gpu=beside, hca=hca)
        yield from (Column(gpu=gpu) for gpu in lone)


def hardware(manifest: Manifest) -> Hardware:
    """The part of ``manifest`` that the demo is about."""
    return Hardware(
        hcas=tuple(
            Card(name=one.name, key=f"uverbs{one.uverbs}", place=_function(one.function))
            for one in manifest.hcas
            if one.function
            and one.uverbs is not None
            and _SOUND in {(port.link, port.state) for port in one.ports}
        ),
        gpus=tuple(
            Card(name=f"GPU{number}", key=one.uuid, place=_function(one.function))
            for number, one in enumerate(manifest.gpus)
            if one.uuid
        ),
    )


def path(gpu: Card, hca: Card) -> PathClass:
    """How far two cards are apart."""
    return path_class(gpu.place, hca.place)


def nearest_classes(gpus: Collection[Card], hcas: Collection[Card]) -> Classes:
    """The nearest that ``gpus`` can meet different ones of ``hcas``, by trying all ways; nearest pairs first."""
    pairs = min(len(gpus), len(hcas))
    some = permutations(gpus, pairs)
    ways = ((one, other) for one in some for other in permutations(hcas, pairs))
    every = (tuple(sorted(map(path, one, other))) for one, other in ways)
    return min(every, default=())


def _zone(column: Column) -> int:
    one = column.hca or column.gpu
    return -1 if one is None else one.zone


def _function(part: FunctionPart) -> Function:
    numa = None if part.numa < 0 else part.numa
    return Function(address=PciAddress(part.address), path=part.path[:-1], numa_node=numa)
