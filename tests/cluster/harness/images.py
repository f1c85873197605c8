"""Answers for the images of the tests' own pods, made of Debian's static busybox.

It must not make the project's image: that is deploy/image.
"""

from pathlib import Path

from harness import commands
from oci import PROGRAM, Entry, write_layer, write_layout

BUSYBOX = "docker.io/library/busybox:latest"
SANDBOX = "railside.test/sandbox:1"
PROGRAM_FILE = Path("/bin/busybox")
ENVIRONMENT = ["PATH=/bin"]


def write_all(folder: Path) -> None:
    """Write the layouts of all images of this module below ``folder``."""
    layer = folder / "busybox.tar"
    write_layer(
        layer,
        [*programs(), Entry("etc/passwd", b"root:x:0:0:root:/:/bin/sh\n"), Entry("etc/group", b"root:x:0:\n")],
    )
    write_layout(folder / "busybox", BUSYBOX, [layer], {"Cmd": ["sh"], "Env": ENVIRONMENT})
    # What keeps a pod's namespaces while its containers come and go.
    forever = {"Entrypoint": ["/bin/sleep", "2147483647"], "Env": ENVIRONMENT}
    write_layout(folder / "sandbox", SANDBOX, [layer], forever)


def programs() -> list[Entry]:
    """Busybox and a link for each program that it can be."""
    names = set(commands.run(PROGRAM_FILE, "--list").split()) - {"busybox"}
    links = [Entry(f"bin/{name}", target="busybox") for name in names]
    return [Entry("bin/busybox", PROGRAM_FILE.read_bytes(), PROGRAM), *links]
