"""Answers for the image's lowest layer: Debian's Python and the libraries it stands on, nothing to type at.

It must not know the project.
"""

from fnmatch import fnmatchcase

SUITE = "bookworm"
PACKAGES = ("libpython3.11-stdlib", "python3.11-minimal")
#: Nothing in the image runs, reads or checks these. A ``*`` stands for slashes too.
LEFT_OUT = (
    "boot*",
    "dev/*",
    "etc/alternatives*",
    "etc/apt*",
    "etc/cron.daily*",
    "etc/dpkg*",
    "etc/fstab",
    "etc/hostname",
    "etc/logrotate.d*",
    "etc/resolv.conf",
    "home*",
    "media*",
    "mnt*",
    "opt*",
    "srv*",
    "usr/bin/dpkg*",
    "usr/bin/tar",
    "usr/bin/update-alternatives",
    "usr/games*",
    "usr/include*",
    "usr/lib/*/gconv*",
    "usr/lib/*/perl-base*",
    "usr/lib/dpkg*",
    "usr/lib/python3.11/ensurepip*",
    "usr/lib/python3.11/lib2to3*",
    "usr/lib/python3.11/pydoc_data*",
    "usr/lib/systemd*",
    "usr/lib32",
    "usr/libx32",
    "usr/libexec*",
    "usr/sbin/*",
    "usr/share/bash-completion*",
    "usr/share/doc*",
    "usr/share/dpkg*",
    "usr/share/lintian*",
    "usr/share/locale*",
    "usr/share/man*",
    "usr/share/perl5*",
    "usr/share/polkit-1*",
    "usr/src*",
    "var/*",
)
#: Run in the unpacked tree, in this order; ``$1`` is its folder.
FINISHING = (
    'cd "$1" && mkdir -p proc sys root usr/local/bin',
    'cd "$1" && echo "root:x:0:0:root:/root:/sbin/nologin" >etc/passwd && echo "root:x:0:" >etc/group',
    'ln -s python3.11 "$1/usr/bin/python3"',
    # Hashes instead of times, so that the compiled files hold whatever time the layer gives them.
    'chroot "$1" /usr/bin/python3.11 -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3.11',
)


def command(target: str) -> list[str]:
    """The command line that writes the unpacked packages to the tar ``target``; it runs no package's script."""
    return [
        "mmdebstrap",
        *("--mode=root", "--variant=extract", "--format=tar", "--skip=output/dev"),
        f"--include={','.join(PACKAGES)}",
        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
        *(f"--extract-hook={line}" for line in FINISHING),
        SUITE,
        target,
    ]


def is_kept(path: str) -> bool:
    """Whether the layer holds this path of the tar."""
    return not any(fnmatchcase(path.removeprefix("./"), pattern) for pattern in LEFT_OUT)
