"""Answers for a node's kubelet: its configuration and its command line.

It must not start containerd, nor know the API server beyond the kubeconfig it is given.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path

import yaml

from harness import containerd, probes
from harness.namespaces import Namespaces
from harness.pki import Certificate
from harness.services import Service

HEALTH_PORT = 10248


@dataclass(frozen=True)
class NodeSettings:
    """What sets one node apart: ``kubelet`` holds further fields of the KubeletConfiguration."""

    numa: int = 1
    policy: str = "none"
    scope: str = "container"
    labels: Mapping[str, str] = field(default_factory=dict)
    kubelet: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Identity:
    """Who the node is: its names, its papers and the groups its pods live in."""

    name: str
    address: IPv4Address
    cgroup: str
    certificate: Certificate
    authority: Path
    kubeconfig: Path


def service(node: Namespaces, folder: Path, log: Path, identity: Identity, settings: NodeSettings) -> Service:
    """The node's kubelet, ready when it says that it is healthy."""
    configuration = folder / "kubelet.yaml"
    configuration.write_text(yaml.safe_dump(kubelet_configuration(identity, settings)))
    labels = ",".join(f"{key}={value}" for key, value in settings.labels.items())
    argv = (
        "kubelet",
        f"--config={configuration}",
        f"--kubeconfig={identity.kubeconfig}",
        f"--hostname-override={identity.name}",
        f"--node-ip={identity.address}",
        f"--node-labels={labels}",
        "--v=4",
    )
    url = f"http://{identity.address}:{HEALTH_PORT}/healthz"
    return Service("kubelet", argv, log, ready=lambda: probes.answers(url), inside=node)


def kubelet_configuration(identity: Identity, settings: NodeSettings) -> dict[str, object]:
    """The KubeletConfiguration as the file holds it."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": str(identity.address),
        "healthzBindAddress": str(identity.address),
        "healthzPort": HEALTH_PORT,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(identity.authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(identity.certificate.crt),
        "tlsPrivateKeyFile": str(identity.certificate.key),
        "containerRuntimeEndpoint": f"unix://{containerd.SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{identity.cgroup}",
        "enforceNodeAllocatable": ["pods"],
        "failCgroupV1": False,
        "failSwapOn": False,
        "topologyManagerPolicy": settings.policy,
        "topologyManagerScope": settings.scope,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": False,
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "10s",
        "resolvConf": "",
        **settings.kubelet,
    }
