"""Answers for the control plane: etcd, the API server, the controllers and the scheduler.

It must not know any node.
"""

from pathlib import Path

from harness import probes
from harness.api import HttpsClient
from harness.network import API_SERVICE, CONTROL_PLANE, SERVICE_NETWORK
from harness.pki import Authority, Certificate
from harness.services import Service

SERVER = f"https://{API_SERVICE}:443"
ETCD = "http://127.0.0.1:2379"
ETCD_PEERS = "http://127.0.0.1:2380"
SERVER_HOSTS = f"DNS:kubernetes.default.svc,DNS:localhost,IP:127.0.0.1,IP:{API_SERVICE},IP:{CONTROL_PLANE}"
KUBELET_CLIENT = "kube-apiserver-kubelet-client"
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "device-taint-eviction-controller",
    "disruption-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourceclaim-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "taint-eviction-controller",
)


class ControlPlane:
    """The four programs; :meth:`start` returns when the API server serves and the others follow it."""

    def __init__(self, folder: Path, authority: Authority, logs: Path) -> None:
        self._authority = authority
        self._logs = logs
        self._tokens_key = authority.signing_key("service-accounts")
        self.admin = authority.issue("admin", "admin", groups=("system:masters",))
        self.client = HttpsClient(str(API_SERVICE), 443, authority.own.crt, self.admin)
        self.etcd = self._service("etcd", _etcd_words(folder), f"{ETCD}/health")
        self.api_server = Service(
            "kube-apiserver",
            self._api_server_words(),
            logs / "kube-apiserver.log",
            ready=lambda: self.client.answers("/readyz"),
        )
        self.controllers = self._follower("kube-controller-manager", 10257, *self._controller_words())
        self.scheduler = self._follower("kube-scheduler", 10259, "--v=2")

    def start(self) -> None:
        """Start all; the controllers and the scheduler may need a moment more."""
        self.etcd.launch()
        self.etcd.await_ready()
        self.api_server.start()
        self.controllers.launch()
        self.scheduler.launch()

    def await_all(self) -> None:
        """Return when all of it serves."""
        self.controllers.await_ready()
        self.scheduler.await_ready()

    def stop(self) -> None:
        """Kill what :meth:`start` started."""
        for service in (self.scheduler, self.controllers, self.api_server, self.etcd):
            service.kill()

    def _service(self, name: str, words: list[str], health_url: str) -> Service:
        return Service(name, words, self._logs / f"{name}.log", ready=lambda: probes.answers(health_url))

    def _follower(self, name: str, port: int, *extra: str) -> Service:
        """A program that speaks to the API server under an identity of its own."""
        identity = self._authority.issue(name, f"system:{name}", hosts="DNS:localhost,IP:127.0.0.1")
        kubeconfig = self._authority.kubeconfig(SERVER, identity)
        words = [
            name,
            *(f"--{use}kubeconfig={kubeconfig}" for use in ("", "authentication-", "authorization-")),
            *(f"--tls-cert-file={identity.crt}", f"--tls-private-key-file={identity.key}"),
            *("--bind-address=127.0.0.1", "--leader-elect=false"),
            *extra,
        ]
        client = HttpsClient("127.0.0.1", port, self._authority.own.crt)
        return Service(name, words, self._logs / f"{name}.log", ready=lambda: client.answers("/healthz"))

    def _controller_words(self) -> list[str]:
        return [
            f"--controllers={','.join(CONTROLLERS)}",
            "--use-service-account-credentials=true",
            # Each controller fetches its credentials at the start; the default rate makes that seconds.
            *("--kube-api-qps=200", "--kube-api-burst=400"),
            f"--service-account-private-key-file={self._tokens_key}",
            f"--root-ca-file={self._authority.own.crt}",
        ]

    def _api_server_words(self) -> list[str]:
        own = self._authority.issue("apiserver", "kube-apiserver", hosts=SERVER_HOSTS)
        to_kubelets = self._authority.issue("apiserver-kubelet-client", KUBELET_CLIENT)
        return [
            "kube-apiserver",
            *(f"--etcd-servers={ETCD}", f"--service-cluster-ip-range={SERVICE_NETWORK}"),
            *("--bind-address=0.0.0.0", "--secure-port=443", f"--advertise-address={CONTROL_PLANE}"),
            *_files("tls-cert-file", "tls-private-key-file", own),
            *_files("kubelet-client-certificate", "kubelet-client-key", to_kubelets),
            f"--client-ca-file={self._authority.own.crt}",
            f"--kubelet-certificate-authority={self._authority.own.crt}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._tokens_key}",
            f"--service-account-signing-key-file={self._tokens_key}",
            *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"),
            "--allow-privileged=true",
        ]


def _files(certificate_flag: str, key_flag: str, pair: Certificate) -> tuple[str, str]:
    return f"--{certificate_flag}={pair.crt}", f"--{key_flag}={pair.key}"


def _etcd_words(folder: Path) -> list[str]:
    return [
        "etcd",
        *("--name=etcd", f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync"),
        *(f"--listen-client-urls={ETCD}", f"--advertise-client-urls={ETCD}"),
        *(f"--listen-peer-urls={ETCD_PEERS}", f"--initial-advertise-peer-urls={ETCD_PEERS}"),
        f"--initial-cluster=etcd={ETCD_PEERS}",
    ]
