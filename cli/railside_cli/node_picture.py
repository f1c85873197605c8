"""Draws a node as its kubelet sees it: who sits where, and what each container finds in its folders.

It must not ask the agent anything.
"""

from pathlib import Path
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table

from railside_proto.names import CONTAINER_DEVICES, CONTAINER_INFO, RESOURCE
from railside_sim.kubelet import EmbeddedKubelet
from railside_sim.pods import Failed, Outcome, Pending, Running


class Marks(NamedTuple):
    """How a seat is shown."""

    free: str
    held: str
    ill: str


def marks(console: Console) -> Marks:
    """Signs that the terminal can show."""
    return Marks("□", "■", "✗") if console.encoding.startswith("utf") else Marks("-", "*", "x")


def legend(console: Console) -> str:
    """What the signs mean."""
    signs = marks(console)
    return f"{signs.free} free  {signs.held} held  {signs.ill} ill"


def node_picture(kubelet: EmbeddedKubelet, signs: Marks) -> RenderableType:
    """The node's counts, its seats by NUMA node, and its pods."""
    status = kubelet.status_of()
    held = {seat: pod.pod for pod in kubelet.pods.values() for seat in _seats(pod)}
    counts = f"{RESOURCE}: capacity {status.capacity}, allocatable {status.allocatable}, held {len(held)}"
    parts: list[RenderableType] = [counts, _places(kubelet, held, signs)]
    if kubelet.pods:
        parts += ["", _pods(kubelet), *_waiting(kubelet)]
    return Group(*parts)


def uverbs(pod: Outcome) -> tuple[str, ...]:
    """Names of the HCA nodes in a pod's container."""
    return tuple(name for name in _inside(pod) if name.startswith("uverbs"))


def _places(kubelet: EmbeddedKubelet, held: dict[str, str], signs: Marks) -> Table:
    zones: dict[str, list[str]] = {}
    for device in kubelet.listed():
        numa_nodes = ",".join(map(str, sorted(device.numa or ()))) or "any"
        zones.setdefault(f"NUMA {numa_nodes}", []).append(_place(device.id, held, signs, healthy=device.healthy))
    table = Table.grid(padding=(0, 2))
    for zone, places in sorted(zones.items()):
        table.add_row(zone, *places)
    return table


def _place(seat: str, held: dict[str, str], signs: Marks, *, healthy: bool) -> str:
    if seat in held:
        return f"[cyan]{signs.held} {escape(held[seat])}[/]"
    return f"[green]{signs.free} {escape(seat)}[/]" if healthy else f"[red]{signs.ill} {escape(seat)}[/]"


def _pods(kubelet: EmbeddedKubelet) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("pod", "phase", "seats", f"in {CONTAINER_DEVICES}", "HCA"):
        table.add_column(column)
    for _, pod in sorted(kubelet.pods.items()):
        table.add_row(pod.pod, *_row(pod))
    return table


def _row(pod: Outcome) -> tuple[str, ...]:
    match pod:
        case Running():
            return ("[green]Running[/]", " ".join(pod.seats), " ".join(_inside(pod)), _hcas(pod))
        case Pending():
            return ("[yellow]Pending[/]", " ".join(pod.seats), "", "")
        case Failed():
            return ("[red]Failed[/]", "", "", "")


def _waiting(kubelet: EmbeddedKubelet) -> list[str]:
    """Why each pod that does not run does not."""
    return [
        f"[yellow]{escape(pod.pod)}[/]: {escape(pod.reason)}"
        for _, pod in sorted(kubelet.pods.items())
        if not isinstance(pod, Running)
    ]


def _inside(pod: Outcome) -> tuple[str, ...]:
    return tuple(device.path.rpartition("/")[2] for device in pod.devices) if isinstance(pod, Running) else ()


def _seats(pod: Outcome) -> tuple[str, ...]:
    return () if isinstance(pod, Failed) else pod.seats


def _hcas(pod: Running) -> str:
    """What the container reads in its own info folder."""
    folder = next(mount.host_path for mount in pod.mounts if mount.container_path.startswith(CONTAINER_INFO))
    return " ".join((Path(folder) / "hcas").read_text(encoding="utf-8").split())
