"""How far each GPU is from each HCA, as ``nvidia-smi topo -m`` shows it, in as many pieces as the width asks for.

It must not cut a name off.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from railside_cli.topo.tree import gpu_names
from railside_proto.machine import Hca, Machine, PathClass, path_class

_WIDEST_CLASS: Final = 4
_GAP: Final = 2
"""Terminal columns: of ``NODE``, and between two cells."""

_COLOURS: Final = {
    PathClass.PIX: "bold green",
    PathClass.PXB: "green",
    PathClass.PHB: "yellow",
    PathClass.NODE: "yellow",
    PathClass.SYS: "dim",
}


class Matrix:
    """The matrix of a machine that has GPUs and HCAs, with an empty line above each piece."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._names = gpu_names(machine)
        self._label = max(map(len, self._names.values()))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for hcas in self._pieces(options.max_width):
            yield Text()
            for line in self._lines(hcas):
                line.rstrip()
                yield line

    def _pieces(self, width: int) -> Iterator[Sequence[Hca]]:
        """Pieces of about the same size, each of which has room in ``width``: one HCA at least."""
        hcas = self._machine.hcas
        fitting = max(1, (width - self._label) // (_GAP + max(map(_width, hcas))))
        pieces = -(-len(hcas) // fitting)
        size = -(-len(hcas) // pieces)
        return (hcas[start : start + size] for start in range(0, len(hcas), size))

    def _lines(self, hcas: Sequence[Hca]) -> Iterator[Text]:
        heads = ((f"{hca.name:^{_width(hca)}}", "green") for hca in hcas)
        yield self._line("", heads)
        for gpu in self._machine.gpus:
            paths = [path_class(gpu, hca) for hca in hcas]
            cells = (f"{path.name:^{_width(hca)}}" for path, hca in zip(paths, hcas, strict=True))
            yield self._line(self._names[gpu.address], zip(cells, map(_COLOURS.__getitem__, paths), strict=True))

    def _line(self, label: str, cells: Iterator[tuple[str, str]]) -> Text:
        line = Text(no_wrap=True, overflow="ignore").append(label.ljust(self._label), style="cyan")
        for cell, style in cells:
            line.append(" " * _GAP).append(cell, style=style)
        return line


def _width(hca: Hca) -> int:
    return max(_WIDEST_CLASS, len(hca.name))
