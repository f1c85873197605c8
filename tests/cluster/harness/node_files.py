"""Answers for what a node sees of the file system: the machine's own, without leave to change it.

It must not hide the work folder, nor the folder of the project.
"""

from pathlib import Path

from harness import commands, numa
from harness.namespaces import Namespaces

#: Folders that programs of a node fill; what is in them stays visible, what is written stays in the node.
LAYERED = ("/var/lib", "/var/log")
#: What a kubelet sets on its machine. A node's kubelet sets a copy.
KERNEL_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


def insert_disk(folder: Path) -> None:
    """What the kubelet writes outlives a boot: outside of the node's namespaces, until ``remove_disk``."""
    disk(folder).mkdir()
    # The kubelet measures the file system it lies on, and does not know layered ones.
    commands.run("mount", "-t", "tmpfs", "-o", "mode=755", "kubelet", disk(folder))


def remove_disk(folder: Path) -> None:
    """The end of it, when nobody is in the node's namespaces any more."""
    commands.run("umount", disk(folder))


def disk(folder: Path) -> Path:
    """Where that is."""
    return folder / "kubelet"


def arrange(node: Namespaces, folder: Path, numa_nodes: int) -> None:
    """Mount all that is the node's own; its files lie below ``folder``, and are found there again after a boot."""
    node.run("mount", "--make-rshared", "/")
    node.run("mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run")
    for path in LAYERED:
        _layer(node, folder / "layers" / path.strip("/").replace("/", "-"), path)
    node.run("mkdir", "-p", "/var/lib/kubelet")
    node.run("mount", "--bind", disk(folder), "/var/lib/kubelet")
    for name in KERNEL_SETTINGS:
        _copy(node, folder / "settings", Path("/proc/sys") / name)
    if numa_nodes > 1:
        if not (folder / "numa").exists():
            numa.write_tree(folder / "numa", numa_nodes)
        node.run("mount", "--bind", folder / "numa", numa.SYSFS / "node")


def _layer(node: Namespaces, folder: Path, path: str) -> None:
    upper, work = folder / "upper", folder / "work"
    upper.mkdir(parents=True, exist_ok=True)
    work.mkdir(exist_ok=True)
    node.run("mount", "-t", "overlay", "-o", f"lowerdir={path},upperdir={upper},workdir={work}", "node", path)


def _copy(node: Namespaces, folder: Path, setting: Path) -> None:
    if not setting.exists():
        return
    copy = folder / setting.name
    folder.mkdir(exist_ok=True)
    copy.write_text(setting.read_text())
    node.run("mount", "--bind", copy, setting)
