"""Files, folders and links below one root, in the manner of sysfs.

It answers for how they are written: text ends with a line end, links between places of the tree are relative.
It must not know what any of them means.
"""

import os
import shutil
from pathlib import Path


class TreeWriter:
    """Writes below ``root``, which need not be there yet. All paths are relative to it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._made: set[str] = set()

    def place(self, path: str) -> Path:
        """Where ``path`` lies on this machine."""
        return self._root / path

    def folder(self, path: str) -> None:
        """Makes a folder and all above it, once: a machine has hundreds, with thousands of files."""
        if path not in self._made:
            self.place(path).mkdir(parents=True, exist_ok=True)
            self._made.add(path)

    def text(self, path: str, content: str | int) -> None:
        """Writes one attribute; a missing line end is added, an empty text stays empty."""
        text = str(content)
        self.folder(path.rpartition("/")[0])
        self.place(path).write_text(text if not text or text.endswith("\n") else f"{text}\n", encoding="utf-8")

    def texts(self, folder: str, contents: dict[str, str | int]) -> None:
        """Writes several attributes of one folder."""
        for name, content in contents.items():
            self.text(f"{folder}/{name}", content)

    def link(self, path: str, target: str) -> None:
        """Links ``path`` to another place of the tree, replacing an earlier link.

        Relative as in sysfs, where the text ends in the target's name even if it is a folder above.
        """
        above, name = str(Path(target).parent), Path(target).name
        self.raw_link(path, f"{os.path.relpath(above, Path(path).parent)}/{name}")

    def raw_link(self, path: str, text: str) -> None:
        """Makes a link with exactly this text, replacing an earlier link or file."""
        self.folder(path.rpartition("/")[0])
        place = self.place(path)
        try:
            place.symlink_to(text)
        except FileExistsError:
            place.unlink()
            place.symlink_to(text)

    def remove(self, path: str) -> bool:
        """Takes away a file, a link (not its target) or a whole folder; False where there is nothing."""
        self._made.clear()
        place = self.place(path)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
            return True
        present = place.is_symlink() or place.exists()
        place.unlink(missing_ok=True)
        return present
