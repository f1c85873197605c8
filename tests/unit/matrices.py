"""What ``nvidia-smi topo -m`` printed, and a machine of text with its relations. It must not hold expectations."""

import re
from collections.abc import Iterable
from typing import NamedTuple


class Matrix(NamedTuple):
    """The table by names; NICs have the names of the legend."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    cells: dict[tuple[str, str], str]
    numa: dict[str, int]


def matrix_of(text: str) -> Matrix:
    """The table, however its columns are parted."""
    header, *rows = [line.split() for line in text.splitlines() if line.strip()]
    legend = {row[0].rstrip(":"): row[1] for row in rows if len(row) == 2 and re.fullmatch(r"NIC\d+:", row[0])}
    columns = [legend.get(name, name) for name in header if re.fullmatch(r"(GPU|NIC)\d+", name)]
    table = [row for row in rows if re.fullmatch(r"(GPU|NIC)\d+", row[0])]
    named = [(legend.get(row[0], row[0]), row[1:]) for row in table]
    return Matrix(
        gpus=tuple(name for name in columns if name.startswith("GPU")),
        nics=tuple(legend.values()),
        cells={(name, column): cell for name, row in named for column, cell in zip(columns, row, strict=False)},
        numa={name: int(row[len(columns) + 1]) for name, row in named if name.startswith("GPU")},
    )


def machine_of(matrix: Matrix) -> str:
    """A manifest: who is PIX shares a switch, who is PXB a root port, and every other a NUMA node at most."""
    numa = {name: _numa(matrix, name) for name in (*matrix.gpus, *matrix.nics)}
    lines = [f"numa {node} cpus={4 * node}-{4 * node + 3} distances=10,21" for node in sorted(set(numa.values()))]
    clusters = _clusters(matrix, (*matrix.gpus, *matrix.nics), {"PIX", "PXB"})
    for number, cluster in enumerate(clusters, start=1):
        switches = _clusters(matrix, cluster, {"PIX"})
        for place, switch in enumerate(switches):
            above = f"pci0000:{number:02x}/0000:{number:02x}:01.0/0000:{0x40 + number:02x}:00.0"
            if len(switches) > 1:
                above += f"/0000:{0x60 + number:02x}:{place:02x}.0/0000:{0x80 + number:02x}:{place:02x}.0"
            for slot, name in enumerate(switch):
                port = f"{place:x}{slot:x}.{number // 32}"
                path = f"{above}/0000:{0xA0 + number % 32:02x}:{port}/{_address(matrix, name)}"
                lines.append(_line(name, path, numa[name], matrix))
    return "\n".join(lines)


def _numa(matrix: Matrix, name: str) -> int:
    """What the table says of a GPU; of a NIC that of a GPU with which it shares a NUMA node."""
    near = (gpu for gpu in matrix.gpus if matrix.cells[gpu, name] != "SYS")
    return matrix.numa[name] if name in matrix.numa else matrix.numa[next(near)]


def _clusters(matrix: Matrix, names: Iterable[str], cells: set[str]) -> list[list[str]]:
    """``names`` in groups whose members are joined by one of ``cells``, directly or through others."""
    groups: list[list[str]] = []
    for name in names:
        joined = [group for group in groups if any(matrix.cells[name, other] in cells for other in group)]
        groups = [group for group in groups if group not in joined]
        groups.append([*(other for group in joined for other in group), name])
    return groups


def _address(matrix: Matrix, name: str) -> str:
    """GPUs and NICs are counted by address, as the tools do."""
    gpu = name.startswith("GPU")
    number = (matrix.gpus if gpu else matrix.nics).index(name)
    return f"0000:{(0xC0 if gpu else 0xE0) + number:02x}:00.0"


def _line(name: str, path: str, numa: int, matrix: Matrix) -> str:
    if name.startswith("GPU"):
        return f"gpu {path} numa={numa}"
    number = matrix.nics.index(name)
    link = "Ethernet" if "bond" in name else "InfiniBand"
    guid = f"5c25:7303:00a1:{number:04x}"
    return (
        f"hca {path} numa={numa} name={name} uverbs={number} guid={guid}\nport {name} 1 link={link} state=ACTIVE"
    )
