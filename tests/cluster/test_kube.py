"""The agent's view of a real API server: its node's label, its node's pods, its events, its rights.

It answers for the parts under railside_runtime and railside_agent with the rights of deploy/agent/rbac.yaml. It
must not test the agent put together.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from harness import control_plane, waiting
from harness.cluster import Cluster
from harness.kubectl import Kubectl
from harness.kubelet import NodeSettings
from harness.objects import Pod
from installed_agent import HARDWARE, NAMESPACE, InstalledAgent, installed_agent
from railside_agent.event_book import Involved, Saying
from railside_agent.events import EventTeller
from railside_agent.mode import NotSeen
from railside_agent.node_label import NodeLabel
from railside_agent.node_pods import NodePods
from railside_proto.names import KUBELET_CHECKPOINT, KUBELET_DIR, MODE_LABEL, RESOURCE
from railside_runtime.cell import Cell
from railside_runtime.kube import KubeApi
from railside_runtime.kube_error import FORBIDDEN, KubeError
from railside_runtime.logs import make_logger

T = TypeVar("T")

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:railside-agent"
ARRIVES_S = 20


class Unread:
    """Where the log goes."""

    def write(self, line: bytes, /) -> int:
        return len(line)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


LOG = make_logger("debug", "json", Unread())


@pytest.fixture(scope="module")
def static_pods(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the node's kubelet looks for static pods."""
    return tmp_path_factory.mktemp("static")


@pytest.fixture(scope="module")
def agent(cluster: Cluster, static_pods: Path) -> Iterator[InstalledAgent]:
    """A node with HCAs and a folder of static pods."""
    settings = NodeSettings(
        labels={**HARDWARE, MODE_LABEL: "ib-shared"}, kubelet={"staticPodPath": str(static_pods)}
    )
    with installed_agent(cluster, settings) as installed:
        installed.await_offered(8)
        yield installed


@pytest.fixture
def kubeconfig(agent: InstalledAgent, tmp_path: Path) -> str:
    """The agent's service account, seen from outside of a pod."""
    return kubeconfig_of(agent.cluster, tmp_path, "railside-agent")


def kubeconfig_of(cluster: Cluster, folder: Path, account: str) -> str:
    token = cluster.kubectl("create", "token", account, "-n", NAMESPACE).strip()
    return str(kubeconfig_with(cluster, folder / f"{account}.kubeconfig", token))


def kubeconfig_with(cluster: Cluster, target: Path, token: str) -> Path:
    """Whoever has that token, seen from outside of a pod."""
    content = {
        "current-context": "c",
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": control_plane.SERVER,
                    "certificate-authority": str(cluster.authority.own.crt),
                },
            }
        ],
        "users": [{"name": "c", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    target.write_text(json.dumps(content))
    return target


@asynccontextmanager
async def running(api: KubeApi, *parts: Any) -> AsyncIterator[None]:  # noqa: ANN401 -- whatever has a run()
    tasks = [asyncio.create_task(part.run()) for part in parts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await api.close()


async def arrives(cell: Cell[T], accept: Callable[[T], bool], timeout_s: float = ARRIVES_S) -> T:
    """The cell's first value that is accepted."""
    async with asyncio.timeout(timeout_s):
        return await cell.until(accept)


def label(kubectl: Kubectl, node: str, value: str | None) -> None:
    word = f"{MODE_LABEL}-" if value is None else f"{MODE_LABEL}={value}"
    kubectl("label", "node", node, word, "--overwrite")


@contextmanager
def pod(kubectl: Kubectl, name: str, node: str, *command: str) -> Iterator[None]:
    container = {"name": "main", "image": "busybox", "command": list(command)}
    spec = {
        "nodeName": node,
        "containers": [container],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
    }
    try:
        kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        yield
    finally:
        kubectl("delete", "pod", name, "--ignore-not-found", "--wait=false")
        kubectl.wait_gone(Pod, name)


async def test_the_label_of_a_real_node_arrives(agent: InstalledAgent, kubectl: Kubectl, kubeconfig: str) -> None:
    """A label that is set, changed and taken off a Node arrives each time (B-DP-61)."""
    node = agent.node.name
    api = KubeApi(kubeconfig)
    watched = NodeLabel(api, node, LOG)
    async with running(api, watched):
        first = await arrives(watched.facts, lambda facts: facts.seen)
        try:
            for value in ("ib-shared-multi", None, "nonsense", "ib-shared"):
                await asyncio.to_thread(label, kubectl, node, value)
                await arrives(watched.facts, lambda facts, value=value: facts.label == value)  # type: ignore[misc]
        finally:
            await asyncio.to_thread(label, kubectl, node, "ib-shared")
    uid = kubectl.get("node", node)["metadata"]["uid"]
    assert (first.label, first.uid, first.problem) == ("ib-shared", uid, None)


async def test_a_node_that_is_not_there_is_told(agent: InstalledAgent, kubeconfig: str) -> None:
    """An agent that is told a wrong name of its node hears it, and does not see another's label."""
    assert agent.node.name != "nowhere"
    api = KubeApi(kubeconfig)
    watched = NodeLabel(api, "nowhere", LOG)
    async with running(api, watched):
        facts = await arrives(watched.facts, lambda facts: "knows no node" in (facts.problem or ""))
    assert facts.label == NotSeen(detail="the API server knows no node nowhere")


async def test_pods_of_a_real_node_live_and_end(agent: InstalledAgent, kubectl: Kubectl, kubeconfig: str) -> None:
    """A pod is alive while its container runs, has ended with it, and that stays known once it is deleted."""
    api = KubeApi(kubeconfig)
    watched = NodePods(api, agent.node.name, LOG)
    async with running(api, watched):
        with pod(kubectl, "short", agent.node.name, "sh", "-c", "until test -e /over; do sleep 0.1; done"):
            seen = await asyncio.to_thread(kubectl.wait, Pod, "short", lambda one: one.running)
            await arrives(watched.pods, lambda pods: pods.ended(seen.metadata.uid) is False)
            await asyncio.to_thread(kubectl.execute, "short", "touch", "/over")
            await arrives(watched.pods, lambda pods: pods.ended(seen.metadata.uid) is True)
        gone = await arrives(watched.pods, lambda pods: seen.metadata.uid not in pods.by_uid)
    assert gone.ended(seen.metadata.uid) is True


async def test_a_static_pod_has_the_uid_of_the_checkpoint(
    agent: InstalledAgent, kubectl: Kubectl, kubeconfig: str, static_pods: Path
) -> None:
    """The kubelet's checkpoint names a static pod by the UID that its mirror carries as an annotation."""
    command = ["sh", "-c", "trap 'exit 0' TERM; sleep 10000 & wait"]
    container = {"name": "main", "image": "busybox", "command": command, "resources": {"limits": {RESOURCE: 1}}}
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "static"},
        "spec": {"containers": [container]},
    }
    file, draft = static_pods / "static.yaml", static_pods.with_name("draft.yaml")
    mirror = f"static-{agent.node.name}"
    api = KubeApi(kubeconfig)
    watched = NodePods(api, agent.node.name, LOG)
    async with running(api, watched):
        try:
            # In one piece: the kubelet reads a file as soon as it appears, and then not for a while.
            draft.write_text(yaml.safe_dump(manifest))
            draft.rename(file)
            seen = await asyncio.to_thread(kubectl.wait, Pod, mirror, lambda one: one.running)
            (uid,) = await asyncio.to_thread(uids_in_the_checkpoint, agent)
            pods = await arrives(watched.pods, lambda pods: pods.ended(uid) is False)
        finally:
            file.unlink(missing_ok=True)
            await asyncio.to_thread(kubectl.wait_gone, Pod, mirror)
        await arrives(watched.pods, lambda pods: uid not in pods.by_uid)
    assert uid != seen.metadata.uid
    assert pods.by_uid[uid].uid == seen.metadata.uid
    assert pods.by_uid[uid].containers[0].resources == (RESOURCE,)


def uids_in_the_checkpoint(agent: InstalledAgent) -> set[str]:
    """UIDs of pods to which the kubelet has dealt HCAs, as it writes them down."""
    text = agent.node.run("cat", f"{KUBELET_DIR}/device-plugins/{KUBELET_CHECKPOINT}")
    entries = json.loads(text)["Data"]["PodDeviceEntries"] or []
    return {entry["PodUID"] for entry in entries if entry["ResourceName"] == RESOURCE}


async def test_events_are_seen_and_counted(agent: InstalledAgent, kubectl: Kubectl, kubeconfig: str) -> None:
    """Events about a node and a pod are where kubectl describe shows them, and the same again raises a count."""
    node = kubectl.get("node", agent.node.name)["metadata"]
    about_node = Involved(kind="Node", name=node["name"], uid=node["uid"])
    api = KubeApi(kubeconfig)
    teller = EventTeller(api, agent.node.name, LOG, series_seconds=0.5)
    with pod(kubectl, "told", agent.node.name, "sleep", "1000"):
        seen = kubectl.wait(Pod, "told", lambda one: one.running)
        about_pod = Involved(kind="Pod", name="told", uid=seen.metadata.uid, namespace="default")
        async with running(api, teller):
            for _ in range(3):
                teller.tell(Saying(about=about_node, reason="NoActivePort", message="mlx5_1 has no active port"))
            teller.tell(Saying(about=about_pod, reason="HcaGone", message="mlx5_1 is gone", type="Warning"))
            await asyncio.to_thread(await_event, kubectl, about_node, "NoActivePort", 3)
            await asyncio.to_thread(await_event, kubectl, about_pod, "HcaGone", 1)
            teller.tell(Saying(about=about_node, reason="NoActivePort", message="mlx5_1 has no active port"))
            counted = await asyncio.to_thread(await_event, kubectl, about_node, "NoActivePort", 4)
        assert "mlx5_1 is gone" in kubectl("describe", "pod", "told")
    assert counted["reportingComponent"] == "railside-agent"
    assert "mlx5_1 has no active port" in kubectl("describe", "node", agent.node.name)


def await_event(kubectl: Kubectl, about: Involved, reason: str, count: int) -> dict[str, Any]:
    """The one Event of ``reason`` about an object, once it counts ``count``."""
    words = ("events", "--field-selector", f"reason={reason},involvedObject.uid={about.uid}")

    def look() -> dict[str, Any] | None:
        found: list[dict[str, Any]] = kubectl.get(*words)["items"]
        return next((one for one in found if len(found) == 1 and one["count"] == count), None)

    return waiting.until_value(look, f"one event {reason} that counts {count}", ARRIVES_S)


async def test_the_api_server_goes_and_comes_back(
    agent: InstalledAgent, kubectl: Kubectl, kubeconfig: str
) -> None:
    """While the API server is away label and pods stay; when it is back, what changed meanwhile arrives."""
    server = agent.cluster.control_plane.api_server
    api = KubeApi(kubeconfig)
    node, pods = NodeLabel(api, agent.node.name, LOG), NodePods(api, agent.node.name, LOG)
    # The server that starts may not know our rights yet, and refuses at first.
    teller = EventTeller(api, agent.node.name, LOG, series_seconds=1)
    async with running(api, node, pods, teller):
        await arrives(node.facts, lambda facts: facts.label == "ib-shared" and facts.problem is None)
        before = await arrives(pods.pods, lambda pods: pods.synced and pods.problem is None)
        try:
            await asyncio.to_thread(server.kill)
            gone = await arrives(node.facts, lambda facts: facts.problem is not None)
            lost = await arrives(pods.pods, lambda pods: pods.problem is not None)
            about = Involved(kind="Node", name=agent.node.name, uid=gone.uid)
            teller.tell(Saying(about=about, reason="ToldLater", message="said while nobody listened"))
        finally:
            await asyncio.to_thread(server.start)
        try:
            await asyncio.to_thread(label, kubectl, agent.node.name, "ib-shared-multi")
            await arrives(node.facts, lambda facts: facts.label == "ib-shared-multi" and facts.problem is None, 60)
            await arrives(pods.pods, lambda pods: pods.problem is None, 60)
            await asyncio.to_thread(await_event, kubectl, about, "ToldLater", 1)
        finally:
            await asyncio.to_thread(label, kubectl, agent.node.name, "ib-shared")
    assert gone.label == "ib-shared"
    assert before.pods == lost.pods


@pytest.mark.usefixtures("agent")
class TestRights:
    """deploy/agent/rbac.yaml."""

    @pytest.mark.parametrize(
        ("verb", "resource", "allowed"),
        [
            ("list", "nodes", True),
            ("watch", "nodes", True),
            ("list", "pods", True),
            ("watch", "pods", True),
            ("create", "events", True),
            ("patch", "events", True),
            ("patch", "nodes", False),
            ("update", "nodes", False),
            ("patch", "nodes/status", False),
            ("get", "nodes/proxy", False),
            ("delete", "pods", False),
            ("create", "pods", False),
            ("create", "pods/exec", False),
            ("list", "events", False),
            ("list", "secrets", False),
            ("list", "configmaps", False),
        ],
    )
    def test_the_account_may_do_what_the_role_says(
        self, kubectl: Kubectl, verb: str, resource: str, *, allowed: bool
    ) -> None:
        """The agent may look at nodes and pods and tell events, in every namespace, and nothing else."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": ACCOUNT, "groups": [], "resourceAttributes": attributes(verb, resource)},
        }
        answer = json.loads(kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(review)))
        assert allowed == answer["status"]["allowed"]

    async def test_a_right_to_one_name_is_enough_for_the_own_node(
        self, agent: InstalledAgent, kubectl: Kubectl, tmp_path: Path
    ) -> None:
        """With resourceNames alone, a list and a watch by field selector are allowed, and those of all are not."""
        rule = {
            "apiGroups": [""],
            "resources": ["nodes"],
            "verbs": ["list", "watch"],
            "resourceNames": [agent.node.name],
        }
        api_version = "rbac.authorization.k8s.io/v1"
        narrow = {"name": "narrow", "namespace": NAMESPACE}
        kubectl.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": narrow},
            {"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": "narrow"}, "rules": [rule]},
            {
                "apiVersion": api_version,
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "narrow"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "narrow"},
                "subjects": [{"kind": "ServiceAccount", **narrow}],
            },
        )
        api = KubeApi(kubeconfig_of(agent.cluster, tmp_path, "narrow"))
        watched = NodeLabel(api, agent.node.name, LOG)
        async with running(api, watched):
            await arrives(watched.facts, lambda facts: facts.seen and facts.problem is None)
            with pytest.raises(KubeError, match="forbidden") as caught:
                await api.get("/api/v1/nodes")
            assert caught.value.status == FORBIDDEN


_IN_THE_POD = """
import asyncio, resource
from railside_agent.node_label import NodeLabel
from railside_runtime.kube import KubeApi
from railside_runtime.logs import make_logger
import sys
async def main():
    api = KubeApi()
    label = NodeLabel(api, sys.argv[1], make_logger("debug", "json", sys.stdout.buffer))
    task = asyncio.create_task(label.run())
    facts = await label.facts.until(lambda facts: facts.seen)
    light = "kubernetes_asyncio.client.models" not in sys.modules
    print("label", facts.mode_label, "light", light, flush=True)
    task.cancel()
    await asyncio.wait([task])
    await api.close()
asyncio.run(main())
"""


def test_a_pod_speaks_with_its_own_account(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """In a pod of the image the service account's own token and authority are found, and the models stay out."""
    container = {
        "name": "main",
        "image": "railside/railside:dev",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", _IN_THE_POD, agent.node.name],
    }
    spec = {
        "serviceAccountName": "railside-agent",
        "automountServiceAccountToken": True,
        "nodeName": agent.node.name,
        "hostNetwork": True,
        "restartPolicy": "Never",
        "containers": [container],
    }
    metadata = {"name": "own-account", "namespace": NAMESPACE}
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    try:
        kubectl.wait(
            Pod, "own-account", lambda one: one.status.phase in {"Succeeded", "Failed"}, namespace=NAMESPACE
        )
        log = kubectl.logs("own-account", namespace=NAMESPACE)
    finally:
        kubectl("delete", "pod", "own-account", "-n", NAMESPACE, "--grace-period=0", "--force")
    assert log.splitlines()[-1] == "label ib-shared light True"


def attributes(verb: str, resource: str) -> dict[str, str]:
    """What a SubjectAccessReview asks about a resource, or its subresource, everywhere."""
    name, _, sub = resource.partition("/")
    return {"verb": verb, "resource": name, **({"subresource": sub} if sub else {})}
