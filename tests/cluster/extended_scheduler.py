"""The scheduler of deploy/scheduler and the extender as processes, each with the rights of its service account.

It answers for what must differ from a pod of both: where the API server is found, and which ports are free. It
must not change anything else of the manifests.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness import control_plane, probes
from harness.api import HttpsClient
from harness.cluster import Cluster
from harness.kubectl import Kubectl
from harness.services import Service
from installed_agent import BASE, NAMESPACE, REPOSITORY
from railside_proto.names import EXTENDER_PROBE_PORT

Manifest = dict[str, Any]

DEDICATED = REPOSITORY / "deploy/scheduler"
BESIDE = DEDICATED / "beside"
RECORDS = REPOSITORY / "deploy/crd"
WORKLOADS = ("Deployment", "DaemonSet")
PORT = 10261
"""Of the second scheduler: the cluster's own has the usual one."""

CONFIGURATION = "--config=/etc/railside-scheduler/"


@dataclass(frozen=True)
class ExtendedScheduler:
    """The two programs."""

    scheduler: Service
    extender: Service


@contextmanager
def extended_scheduler(cluster: Cluster) -> Iterator[ExtendedScheduler]:
    """Both are up, and the extender has read all that there was before."""
    folder = cluster.workdir / "extended"
    folder.mkdir(exist_ok=True)
    both = ExtendedScheduler(_scheduler(cluster, folder), _extender(cluster))
    try:
        both.extender.start()
        both.scheduler.start()
        yield both
    finally:
        # In order, so that it gives its lease back: the next one would wait for its end.
        both.scheduler.stop()
        both.extender.kill()


def install(kubectl: Kubectl) -> None:
    """The namespace, the kind of the records, and both ways to run the extender but for their pods."""
    kubectl.apply(BASE / "namespace.yaml", RECORDS / "rdmanodes.yaml")
    kubectl("wait", "--for=condition=Established", "crd/rdmanodes.railside.dev")
    for folder in (DEDICATED, BESIDE):
        kubectl.apply(*(one for one in objects(kubectl, folder) if one["kind"] not in WORKLOADS))


def objects(kubectl: Kubectl, folder: Path) -> list[Manifest]:
    """What a kustomize base holds."""
    return list(yaml.safe_load_all(kubectl("kustomize", folder)))


def account(name: str) -> str:
    """What the API server calls a service account of the namespace."""
    return f"system:serviceaccount:{NAMESPACE}:{name}"


def _kubeconfig(cluster: Cluster, name: str) -> Path:
    """Its rights are those of the service account ``name``."""
    return cluster.authority.kubeconfig(control_plane.SERVER, cluster.authority.issue(name, account(name)))


def _extender(cluster: Cluster) -> Service:
    words = ("railside-extender", "run", "--kubeconfig", _kubeconfig(cluster, "railside-extender"))
    return Service(
        "railside-extender",
        words,
        cluster.places.logs / "railside-extender.log",
        ready=lambda: probes.answers(f"http://127.0.0.1:{EXTENDER_PROBE_PORT}/readyz"),
    )


def _scheduler(cluster: Cluster, folder: Path) -> Service:
    every = objects(cluster.kubectl, DEDICATED)
    (deployment,) = (one for one in every if one["kind"] == "Deployment")
    (configuration,) = (one for one in every if one["kind"] == "ConfigMap")
    kubeconfig = _kubeconfig(cluster, "railside-scheduler")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    serving = cluster.authority.issue("railside-scheduler-serving", "serving", hosts="IP:127.0.0.1")
    client = HttpsClient("127.0.0.1", PORT, cluster.authority.own.crt)
    words = [
        *container["command"],
        *(_found(word, configuration["data"], folder, kubeconfig) for word in container["args"]),
        *(f"--{use}-kubeconfig={kubeconfig}" for use in ("authentication", "authorization")),
        *(f"--tls-cert-file={serving.crt}", f"--tls-private-key-file={serving.key}"),
        *("--bind-address=127.0.0.1", f"--secure-port={PORT}", "--v=2"),
    ]
    log = cluster.places.logs / "railside-scheduler.log"
    return Service("railside-scheduler", words, log, ready=lambda: client.answers("/healthz"))


def _found(word: str, files: dict[str, str], folder: Path, kubeconfig: Path) -> str:
    """An argument of the container; the file that it names lies in ``folder``, and names a kubeconfig."""
    if not word.startswith(CONFIGURATION):
        return word
    content = yaml.safe_load(files[word.removeprefix(CONFIGURATION)])
    target = folder / "configuration.yaml"
    target.write_text(json.dumps({**content, "clientConnection": {"kubeconfig": str(kubeconfig)}}))
    return f"--config={target}"
