"""Answers for a node's containerd: its configuration, and where its images come from.

It must not pull an image by itself: the kubelet asks.
"""

import json
from ipaddress import IPv4Network
from pathlib import Path

from harness import commands, registry
from harness.images import SANDBOX
from harness.namespaces import Namespaces
from harness.services import Service

SOCKET = "/run/containerd/containerd.sock"

CONFIGURATION = """\
version = 3
root = "{folder}/root"
state = "/run/containerd"

[grpc]
address = "{socket}"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{sandbox}"

[plugins."io.containerd.cri.v1.images".registry]
config_path = "{folder}/hosts"

[plugins."io.containerd.cri.v1.runtime"]
# Not every machine's root may lower the score by which the kernel picks whom to kill.
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "{folder}/cni"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.internal.v1.opt"]
path = "{folder}/opt"
"""

HOSTS = """\
server = "{url}"

[host."{url}"]
capabilities = ["pull", "resolve"]
"""


def service(node: Namespaces, folder: Path, log: Path, pods: IPv4Network) -> Service:
    """The node's containerd, ready when its socket answers."""
    write_files(folder, pods)
    configuration = folder / "containerd.toml"
    argv = ("containerd", "--config", configuration)
    return Service("containerd", argv, log, ready=lambda: _answers(node), inside=node)


def write_files(folder: Path, pods: IPv4Network) -> None:
    """Write all that containerd reads below ``folder``."""
    everywhere = folder / "hosts" / "_default"
    everywhere.mkdir(parents=True)
    (everywhere / "hosts.toml").write_text(HOSTS.format(url=registry.URL))
    (folder / "cni").mkdir()
    (folder / "cni" / "10-bridge.conflist").write_text(json.dumps(_pod_network(pods)))
    text = CONFIGURATION.format(folder=folder, socket=SOCKET, sandbox=SANDBOX)
    (folder / "containerd.toml").write_text(text)


def _pod_network(pods: IPv4Network) -> dict[str, object]:
    addresses = {"type": "host-local", "ranges": [[{"subnet": str(pods)}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "pods0", "isGateway": True, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def _answers(node: Namespaces) -> bool:
    try:
        node.run("ctr", "-a", SOCKET, "version")
    except commands.CommandError:
        return False
    return True
