"""Answers for one node of the cluster: its namespaces, files, cable, containerd and kubelet.

It must not talk to the API server: whether the cluster likes the node is the cluster's question.
"""

from pathlib import Path

from harness import cgroups, containerd, control_plane, kubelet, network, node_files
from harness.kubelet import Identity, NodeSettings
from harness.namespaces import Namespaces
from harness.pki import Authority
from harness.services import Service


class ClusterNode:
    """A machine of the cluster. ``number`` is never used twice in one cluster."""

    def __init__(
        self, number: int, name: str, folder: Path, authority: Authority, settings: NodeSettings, cgroup: str
    ) -> None:
        self.name = name
        self.number = number
        self.folder = folder
        self.settings = settings
        self.address = network.node_address(number)
        self.cgroup = f"{cgroup}/{name}"
        self.namespaces = self._raise_namespaces()
        self.identity = self._identity(authority)
        self.containerd = self._containerd()
        self.kubelet: Service = kubelet.service(
            self.namespaces, folder, self._log("kubelet"), self.identity, settings
        )

    def _raise_namespaces(self) -> Namespaces:
        (self.folder / "log").mkdir(parents=True)
        cgroups.create(self.cgroup)
        namespaces = Namespaces(self._log("namespaces"))
        namespaces.run("hostname", self.name)
        network.connect(self.number, namespaces)
        node_files.arrange(namespaces, self.folder, self.settings.numa)
        return namespaces

    def _identity(self, authority: Authority) -> Identity:
        certificate = authority.issue(
            self.name,
            f"system:node:{self.name}",
            groups=("system:nodes",),
            hosts=f"DNS:{self.name},IP:{self.address}",
        )
        kubeconfig = authority.kubeconfig(control_plane.SERVER, certificate)
        return Identity(self.name, self.address, self.cgroup, certificate, authority.own.crt, kubeconfig)

    def _containerd(self) -> Service:
        folder = self.folder / "containerd"
        return containerd.service(
            self.namespaces, folder, self._log("containerd"), network.pod_network(self.number)
        )

    def _log(self, name: str) -> Path:
        return self.folder / "log" / f"{name}.log"

    def start(self) -> None:
        """Start containerd and the kubelet; return when the kubelet says that it is healthy."""
        self.containerd.start()
        self.kubelet.start()

    @property
    def kubelet_folder(self) -> Path:
        """Where the kubelet's sockets and files are, as seen from outside."""
        return Path(f"/proc/{self.namespaces.first_pid}/root/var/lib/kubelet")

    def lose_power(self) -> None:
        """End all its programs and containers, and what lies in memory; :meth:`start` boots it again."""
        self.namespaces.kill_programs()
        self.kubelet.kill()
        self.containerd.kill()
        cgroups.remove(self.cgroup)
        cgroups.create(self.cgroup)
        node_files.forget_memory(self.namespaces, self.folder)

    def run(self, *argv: str | Path) -> str:
        """What a program, run on the node as root, printed."""
        return self.namespaces.run(*argv)

    def stop(self) -> None:
        """End the node as a power cut does, and clear away what would remain of it."""
        self.namespaces.end()
        self.kubelet.kill()
        self.containerd.kill()
        network.disconnect(self.number)
        cgroups.remove(self.cgroup)
