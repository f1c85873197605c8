"""Answers for the Debian packages that the cluster needs, installing those that are missing.

It must not run inside the cluster's namespaces, where no network is.
"""

from harness import commands

NEEDED = (
    "busybox-static",
    "containernetworking-plugins",
    "etcd-server",
    "iproute2",
    "mmdebstrap",
    "openssl",
    "runc",
    "util-linux",
)


#: Somebody else may be installing at this moment.
PATIENCE = ("-o", "DPkg::Lock::Timeout=120")


def installed() -> set[str]:
    """The names of all packages that are installed and configured."""
    listing = commands.run("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n")
    return {
        name for status, _, name in (line.partition(" ") for line in listing.splitlines()) if status == "installed"
    }


def ensure() -> None:
    """Install what is missing; ``SystemExit`` with one sentence where that cannot be done."""
    missing = sorted(set(NEEDED) - installed())
    if not missing:
        return
    try:
        commands.run("apt-get", *PATIENCE, "update", "-qq", timeout_s=300)
        commands.run(
            "apt-get", *PATIENCE, "install", "-y", "-qq", "--no-install-recommends", *missing, timeout_s=600
        )
    except (commands.CommandError, OSError) as error:
        raise SystemExit(
            f"The cluster tests need the Debian packages {', '.join(missing)}, and installing them failed: {error}"
        ) from error
