"""Answers for what a node sees of the file system: the machine's own, without leave to change it.

It must not hide the work folder, nor the folder of the project.
"""

import uuid
from pathlib import Path

from harness import numa
from harness.namespaces import Namespaces

#: Folders that programs of a node fill; what is in them stays visible, what is written stays in the node.
LAYERED = ("/var/lib", "/var/log")
#: Where programs mount what a boot takes away.
IN_MEMORY = ("/run/", "/var/lib/kubelet/")
#: What a kubelet sets on its machine. A node's kubelet sets a copy.
KERNEL_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
#: Another one at each boot; a node boots by itself.
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def arrange(node: Namespaces, folder: Path, numa_nodes: int) -> None:
    """Mount all that is the node's own; its files lie below ``folder``."""
    node.run("mount", "--make-rshared", "/")
    _mount_run(node)
    for path in LAYERED:
        _layer(node, folder / "layers" / path.strip("/").replace("/", "-"), path)
    # The kubelet measures the file system it lies on, and does not know layered ones.
    node.run("mkdir", "-p", "/var/lib/kubelet")
    node.run("mount", "-t", "tmpfs", "-o", "mode=755", "kubelet", "/var/lib/kubelet")
    for name in KERNEL_SETTINGS:
        _copy(node, folder / "settings", Path("/proc/sys") / name)
    _copy(node, folder / "settings", BOOT_ID)
    if numa_nodes > 1:
        numa.write_tree(folder / "numa", numa_nodes)
        node.run("mount", "--bind", folder / "numa", numa.SYSFS / "node")


def forget_memory(node: Namespaces, folder: Path) -> None:
    """Lose what a boot loses: all mounts of pods and containers, what lies in /run, and the boot's name."""
    lost = sorted((path for path in _mounts(node) if path.startswith(IN_MEMORY)), reverse=True)
    node.run("umount", "--lazy", *lost, "/run")
    _mount_run(node)
    (folder / "settings" / BOOT_ID.name).write_text(f"{uuid.uuid4()}\n")


def _mounts(node: Namespaces) -> list[str]:
    return [line.split()[4] for line in Path(f"/proc/{node.first_pid}/mountinfo").read_text().splitlines()]


def _mount_run(node: Namespaces) -> None:
    node.run("mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run")


def _layer(node: Namespaces, folder: Path, path: str) -> None:
    upper, work = folder / "upper", folder / "work"
    upper.mkdir(parents=True)
    work.mkdir()
    node.run("mount", "-t", "overlay", "-o", f"lowerdir={path},upperdir={upper},workdir={work}", "node", path)


def _copy(node: Namespaces, folder: Path, setting: Path) -> None:
    if not setting.exists():
        return
    copy = folder / setting.name
    folder.mkdir(exist_ok=True)
    copy.write_text(setting.read_text())
    node.run("mount", "--bind", copy, setting)
