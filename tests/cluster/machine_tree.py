"""What happens to a laid-out machine's hardware: ports that change, HCAs that go and come back.

It answers for the files of the tree. It must not know the agent, nor wait for anybody.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from harness import devices
from railside_agent.device_nodes import CharacterDevices
from railside_proto.machine import DeviceNode

DOWN, ACTIVE = "1: DOWN", "4: ACTIVE"


@dataclass(frozen=True)
class Unplugged:
    """An HCA that is out of its tree, and can be put back."""

    link: Path
    target: Path
    entry: Path
    kept: Path

    def plug(self) -> None:
        """Put it back as it was, its device node last."""
        self.link.symlink_to(self.target)
        (self.kept / "entry").rename(self.entry)
        node = self.kept / "node"
        node.rename(self.entry.parents[2].parent / "dev/infiniband" / self.entry.name)
        self.kept.rmdir()


def set_port(tree: Path, device: str, state: str) -> None:
    """The one port of an HCA changes."""
    (tree / "sys/class/infiniband" / device / "ports/1/state").write_text(f"{state}\n", encoding="ascii")


def unplug(tree: Path, uverbs: str) -> Unplugged:
    """Take the HCA of a device node away."""
    entry = tree / "sys/class/infiniband_verbs" / uverbs
    link = tree / "sys/class/infiniband" / (entry / "ibdev").read_text(encoding="ascii").strip()
    kept = tree.parent / f"unplugged-{uverbs}"
    kept.mkdir()
    out = Unplugged(link, link.readlink(), entry, kept)
    (tree / "dev/infiniband" / uverbs).rename(kept / "node")
    entry.rename(kept / "entry")
    link.unlink()
    return out


def renumber(path: Path, like: Path, *, swap: bool = False) -> None:
    """A device node gets the numbers of another, as after a boot that found the HCAs in another order.

    With ``swap`` the other gets the first one's.
    """
    numbers = {path: like.stat().st_rdev}
    if swap:
        numbers[like] = path.stat().st_rdev
    for node, number in numbers.items():
        node.unlink()
        os.mknod(node, 0o020666, number)


def make_nodes(folder: Path, count: int) -> list[Path]:
    """Device nodes ``uverbs0`` and so on, for which devices of this kernel stand in."""
    folder.mkdir(parents=True)
    paths = [folder / f"uverbs{number}" for number in range(count)]
    for path, number in zip(paths, devices.stand_ins(count), strict=True):
        CharacterDevices().make(path, DeviceNode(name=path.name, major=number.major, minor=number.minor))
    return paths


def swap_uverbs(tree: Path, one: str, other: str) -> None:
    """Two HCAs change places in the order in which the kernel numbers them: each has the other's uverbs entry."""
    links = [tree / "sys/class/infiniband_verbs" / name for name in (one, other)]
    folders = [link.resolve() for link in links]
    names = [(folder / "ibdev").read_text(encoding="ascii") for folder in folders]
    for link, folder, place, device in zip(links, folders, folders[::-1], names[::-1], strict=True):
        moved = place.parent / folder.name
        folder.rename(moved)
        (moved / "ibdev").write_text(device, encoding="ascii")
        link.unlink()
        link.symlink_to(os.path.relpath(moved, link.parent))
