"""Draws a node as its containers see it: each column is one PCIe switch, with a GPU above and an HCA below.

It must not ask the agent anything; who holds what is passed in.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec
from rich.text import Text

from railside_cli.demo.hardware import Card, Column, Hardware
from railside_cli.demo.page import Signs
from railside_cli.demo.sight import Seen
from railside_cli.demo.witness import users_of
from railside_proto.names import CONTAINER_DEVICES

_LABEL: Final = 5
_GAP: Final = "  "
_HEAD: Final = ("pod", "GPU", "HCA", "path", f"in its {CONTAINER_DEVICES}")


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Who sees what, and which HCAs are in a bad way."""

    hardware: Hardware
    pods: tuple[Seen, ...]
    marked: frozenset[str] = frozenset()
    """Names of HCAs that are shown as ill."""


def node_grid(scene: Scene, signs: Signs, width: int) -> Iterator[Text]:
    """The whole node: its NUMA nodes side by side, or one below the other where they are too wide for that."""
    zones = scene.hardware.zones()
    cell = _cell_width(scene, signs)
    side_by_side = _LABEL + cell * sum(map(len, zones.values())) + len(_GAP) * (len(zones) - 1) <= width + len(
        _GAP
    )
    blocks = [zones] if side_by_side else [{zone: columns} for zone, columns in zones.items()]
    for block in blocks:
        yield from _lines(block, scene, signs, cell)


def pod_table(pods: Iterable[Seen], signs: Signs) -> Iterator[Text]:
    """What each pod sees, and what it reads of its own pairs."""
    rows = [_HEAD, *(row for pod in pods for row in _rows(pod, signs))]
    widths = [max(map(len, column)) + len(_GAP) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield Text("".join(cells).rstrip(), style="" if number else "dim")


def _rows(pod: Seen, signs: Signs) -> Iterator[tuple[str, ...]]:
    told = {one.hca: one for one in pod.told}
    for number, hca in enumerate(pod.hcas):
        pair = told.get(hca)
        about = (pair.gpu.name, hca.name, pair.path) if pair else (signs.free, hca.name, signs.free)
        first, last = (pod.pod, " ".join(pod.nodes)) if number == 0 else ("", "")
        yield (first, *about, last)


def _cell_width(scene: Scene, signs: Signs) -> int:
    names = [one.name + f" {signs.dead}" for one in scene.hardware.hcas if one.name in scene.marked]
    names += [one.name for one in (*scene.hardware.hcas, *scene.hardware.gpus)] + [one.pod for one in scene.pods]
    return max(8, *map(len, names)) + 1


def _lines(zones: Mapping[int, tuple[Column, ...]], scene: Scene, signs: Signs, cell: int) -> Iterator[Text]:
    def line(label: str, write: Callable[[Column], str], style: str) -> Text:
        groups = ("".join(write(column).ljust(cell) for column in columns) for columns in zones.values())
        return Text(label.ljust(_LABEL)).append(_GAP.join(groups).rstrip(), style=style)

    heads = (f"NUMA node {zone}".ljust(cell * len(columns)) for zone, columns in zones.items())
    yield Text(" " * _LABEL).append(_GAP.join(heads).rstrip(), style="dim")
    yield line("GPU", lambda column: column.gpu.name if column.gpu else "", "dim")
    yield from (line("", write, "cyan") for write in _holders(_gpu_users, zones, scene, signs))
    yield line("HCA", lambda column: _hca_name(column.hca, scene, signs), "dim")
    yield from (line("", write, "bold green") for write in _holders(_hca_users, zones, scene, signs))


def _holders(
    users: Callable[[Column, Collection[Seen]], list[str]],
    zones: Mapping[int, tuple[Column, ...]],
    scene: Scene,
    signs: Signs,
) -> Iterator[Callable[[Column], str]]:
    """One line for the first holder of each, and more where something has several."""
    columns = [column for group in zones.values() for column in group]
    deepest = max((len(users(column, scene.pods)) for column in columns), default=0)

    def writer(row: int) -> Callable[[Column], str]:
        def write(column: Column) -> str:
            names = users(column, scene.pods)
            return names[row] if row < len(names) else (signs.free if row == 0 else "")

        return write

    yield from (writer(row) for row in range(max(1, deepest)))


def _gpu_users(column: Column, pods: Collection[Seen]) -> list[str]:
    return sorted(one.pod for one in pods if column.gpu is not None and column.gpu in one.gpus)


def _hca_users(column: Column, pods: Collection[Seen]) -> list[str]:
    return users_of(column.hca, pods) if column.hca is not None else []


def _hca_name(hca: Card | None, scene: Scene, signs: Signs) -> str:
    if hca is None:
        return ""
    return f"{hca.name} {signs.dead}" if hca.name in scene.marked else hca.name
