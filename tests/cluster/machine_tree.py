"""What happens to a laid-out machine's hardware: ports that change, HCAs that go and come back.

It answers for the files of the tree. It must not know the agent, nor wait for anybody.
"""

import os
from dataclasses import dataclass
from pathlib import Path

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


def renumber(path: Path, like: Path) -> None:
    """A device node gets the numbers of another, as after a boot that found the HCAs in another order."""
    number = like.stat().st_rdev
    path.unlink()
    os.mknod(path, 0o020666, number)
