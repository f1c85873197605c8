"""Answers for the whole: one control plane, one registry, and as many nodes as are asked for.

It must run inside the namespaces that :mod:`harness.enclosure` arranges.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Protocol, Self

from harness import cgroups, control_plane, probes, registry
from harness.commands import CommandError
from harness.control_plane import ControlPlane
from harness.kubectl import Kubectl
from harness.kubelet import NodeSettings
from harness.node import ClusterNode
from harness.objects import Node, ServiceAccount
from harness.pki import Authority
from harness.places import Places
from harness.services import Service

NODE_READY_S = 40
#: For a deletion that nobody waits for, asked of an API server that may be gone.
SOON = ("--wait=false", "--request-timeout=5s")


class MakeNode(Protocol):
    """What the fixture ``node`` gives: each call makes a ready node that lasts for the test."""

    def __call__(
        self,
        *,
        numa: int = 1,
        policy: str = "none",
        scope: str = "container",
        labels: Mapping[str, str] | None = None,
        kubelet: Mapping[str, object] | None = None,
        name: str | None = None,
    ) -> ClusterNode: ...


class Cluster:
    """A running cluster; use it as a context manager."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.workdir = places.workdir
        self.authority = Authority(places.workdir / "pki")
        self.control_plane = ControlPlane(places.workdir, self.authority, places.logs)
        kubeconfig = self.authority.kubeconfig(control_plane.SERVER, self.control_plane.admin)
        self.kubectl = Kubectl(kubeconfig, self.control_plane.client)
        self.registry = Service(
            "registry",
            ("python", "-m", "harness.registry", places.images),
            places.logs / "registry.log",
            ready=lambda: probes.answers(f"{registry.URL}/v2/"),
        )
        self.nodes: dict[str, ClusterNode] = {}
        self._nodes_made = 0

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        self.registry.launch()
        self.control_plane.start()
        self._let_api_server_speak_to_kubelets()
        self.kubectl.wait(ServiceAccount, "default", lambda _: True)
        self.control_plane.await_all()
        self.registry.await_ready()

    def __exit__(self, *_: object) -> None:
        for node in list(self.nodes.values()):
            self._end(node)
        self.control_plane.stop()
        self.registry.kill()
        cgroups.remove(self.places.cgroup)

    def _let_api_server_speak_to_kubelets(self) -> None:
        role, user = "--clusterrole=system:kubelet-api-admin", f"--user={control_plane.KUBELET_CLIENT}"
        self.kubectl("create", "clusterrolebinding", "apiserver-speaks-to-kubelets", role, user)

    @contextlib.contextmanager
    def node(self, settings: NodeSettings, name: str | None = None) -> Iterator[ClusterNode]:
        """A node that is ready for pods, for as long as the context lasts."""
        node = self._make(settings, name)
        try:
            node.start()
            self.kubectl.wait(Node, node.name, lambda seen: seen.usable, timeout_s=NODE_READY_S)
            self.places.kubelet_marker.touch()
            yield node
        finally:
            self._remove(node)

    def _make(self, settings: NodeSettings, name: str | None) -> ClusterNode:
        self._nodes_made += 1
        number = self._nodes_made
        chosen = name or f"n{number}"
        folder = self.places.workdir / chosen
        node = ClusterNode(number, chosen, folder, self.authority, settings, self.places.cgroup)
        self.nodes[chosen] = node
        return node

    def _remove(self, node: ClusterNode) -> None:
        """End the node, and have the cluster forget it and its pods."""
        self._end(node)
        here = f"--field-selector=spec.nodeName={node.name}"
        with contextlib.suppress(CommandError):  # the API server may be what failed
            self.kubectl("delete", "node", node.name, "--ignore-not-found", *SOON)
            self.kubectl("delete", "pods", "-A", here, "--force", "--grace-period=0", *SOON)

    def _end(self, node: ClusterNode) -> None:
        if self.nodes.pop(node.name, None) is not None:
            node.stop()
