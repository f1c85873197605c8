"""The node's record on a real API server: what it says, who may write it, and what it lives through.

It answers for the definition, the policy and the rights of deploy/ together with the agent. It must not test each
field, which the unit tests do.
"""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, Final

import msgspec
import pytest

from gpus_beside import GPU_CHOOSERS, gpus_beside
from harness import waiting
from harness.cluster import Cluster
from harness.commands import CommandError
from harness.kubectl import Kubectl
from harness.kubelet import NodeSettings
from harness.objects import Metadata, Node, Pod
from installed_agent import DOCUMENT_NODE, HCAS, NAMESPACE, REPOSITORY, InstalledAgent, document_agent
from machine_tree import ACTIVE, DOWN, set_port
from railside_agent.publication import claim, content
from railside_extender.records import Terms, terms
from railside_proto.names import AGENT_COMPONENT, GPU_RESOURCE, RECORD_KIND, RECORDS, RESOURCE
from railside_proto.reasons import Code
from railside_proto.record import DeviceKind, Record, Source, TopologyPolicy, TopologyScope
from railside_runtime.kube import KubeApi
from railside_runtime.kube_error import FORBIDDEN, KubeError
from test_document import example_pod, remove, running
from test_kube import kubeconfig_with
from test_life_cycle import listened_to
from test_nearest import await_gpus
from traffic import ROOM, Ask, Shape, manifest

pytestmark = pytest.mark.timeout(240)

BACK_S = 90
"""For an agent that asks each half minute, and for what it waits for."""
DEFINITION = REPOSITORY / "deploy/crd/rdmanodes.yaml"
NODE = NodeSettings(numa=2, policy="restricted", scope="pod", labels=DOCUMENT_NODE.labels)
GPUS_BY_NODE = {(0,): 4, (1,): 4}
APPLY: Final = "application/apply-patch+yaml"
TRY = {"fieldManager": AGENT_COMPONENT, "force": "true", "dryRun": "All"}


class Owner(msgspec.Struct, frozen=True):
    kind: str
    uid: str


class OwnedMetadata(Metadata, frozen=True, rename="camel"):
    owner_references: tuple[Owner, ...] = ()


class RdmaNode(msgspec.Struct, frozen=True):
    """The object as the API server has it."""

    PATH: ClassVar[str] = RECORDS
    metadata: OwnedMetadata
    status: Record | None = None

    @property
    def record(self) -> Record:
        assert self.status is not None
        return self.status


@pytest.fixture(scope="module")
def agent(cluster: Cluster) -> Iterator[InstalledAgent]:
    """The agent on a node that aligns whole pods, which looks at its tree each second: no kernel tells of it."""
    with document_agent(cluster, NODE, RAILSIDE_AGENT_RESYNC_SECONDS="1") as installed:
        yield installed


def record(agent: InstalledAgent, holds: Callable[[Record], bool], timeout_s: float = 30) -> Record:
    """The node's record as soon as it holds of it."""
    kubectl = agent.cluster.kubectl
    fits: Callable[[RdmaNode], bool] = lambda one: one.status is not None and holds(one.status)  # noqa: E731
    return kubectl.wait(RdmaNode, agent.node.name, fits, timeout_s=timeout_s).record


def free(now: Record) -> int:
    (pool,) = now.pools
    return pool.free


def is_idle(now: Record) -> bool:
    return free(now) == HCAS and now.pools[0].registered and not now.holders


def of_hcas(now: Record) -> tuple[object, ...]:
    """What it says of HCAs: of GPUs whose plugin has gone an agent that starts anew knows less."""
    devices = [one for one in now.devices if one.kind is DeviceKind.HCA]
    return ([one for one in now.counts if one.resource == RESOURCE], devices, now.pools)


def illness(now: Record, name: str) -> Code | None:
    (device,) = (one for one in now.devices if one.name == name)
    return device.reason


def test_the_record_says_what_the_node_is(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """The node's UID and boot, the agent's pod, and how the kubelet admits pods, by its own word."""
    now = record(agent, lambda one: is_idle(one) and one.kubelet.source is Source.CONFIGZ)
    node = kubectl.get("node", agent.node.name)
    pod = kubectl.get("pod", "-n", NAMESPACE, agent.pod())

    assert (now.node_uid, now.boot_id) == (node["metadata"]["uid"], node["status"]["nodeInfo"]["bootID"])
    assert now.agent_uid == pod["metadata"]["uid"]
    assert (now.kubelet.topology_policy, now.kubelet.topology_scope) == (
        TopologyPolicy.RESTRICTED,
        TopologyScope.POD,
    )
    assert (now.kubelet.cpu_policy, now.kubelet.memory_policy, now.kubelet.detail) == ("none", "None", "")
    assert [(one.resource, one.hcas, one.free) for one in now.pools] == [(RESOURCE, HCAS, HCAS)]
    assert {one.numa_nodes: one.free for one in now.counts} == {(0,): 4, (1,): 4}
    assert [one.name for one in now.excluded] == ["mlx5_bond_0"]


def test_the_extender_knows_how_to_place_there(agent: InstalledAgent) -> None:
    """What the agent of a real node tells is enough to foresee its kubelet's answers, and makes sense."""
    found = terms(record(agent, is_idle), RESOURCE)

    assert isinstance(found, Terms), found
    assert (found.rule.policy, found.scope) == (TopologyPolicy.RESTRICTED, TopologyScope.POD)
    assert found.untold == frozenset()


def test_the_record_goes_with_its_node(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """The Node owns it, so that no record is left of a node that is gone."""
    found = kubectl.wait(RdmaNode, agent.node.name, lambda one: one.status is not None)

    assert found.metadata.owner_references == (Owner("Node", found.record.node_uid),)


def test_people_see_the_records(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """``kubectl get rdmanodes`` shows mode, HCAs, free ones, policy and age, and ``rn`` is short for it."""
    record(agent, is_idle)
    head, line = kubectl("get", "rdmanodes").splitlines()

    assert head.split() == ["NAME", "MODE", "HCAS", "FREE", "POLICY", "AGE"]
    assert line.split()[:-1] == [agent.node.name, "ib-shared", str(HCAS), str(HCAS), "restricted"]
    assert kubectl("get", "rn", agent.node.name, "-o", "name") == f"rdmanode.railside.dev/{agent.node.name}\n"


async def test_the_record_follows_a_pod(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """GPUs are counted as soon as their plugin is there; a pod has what it has, and leaves it when it ends."""
    async with gpus_beside(agent.node, GPU_CHOOSERS[0]):
        await asyncio.to_thread(await_gpus, agent, ROOM)
        idle = await asyncio.to_thread(record, agent, lambda now: gpu_counts(now) == GPUS_BY_NODE and is_idle(now))
        try:
            await asyncio.to_thread(kubectl.apply, manifest("train", Shape(main=(Ask(2, 2),))))
            pod = await asyncio.to_thread(kubectl.wait, Pod, "train", lambda seen: seen.running)
            busy = await asyncio.to_thread(record, agent, lambda now: bool(now.holders and now.holders[0].hcas), 5)
        finally:
            await asyncio.to_thread(remove, kubectl, "train")
        left = await asyncio.to_thread(record, agent, lambda now: gpu_counts(now) == GPUS_BY_NODE and is_idle(now))

    (holder,) = busy.holders
    assert (holder.pod, holder.container) == (pod.metadata.uid, "main-1")
    assert (len(holder.hcas), len(holder.gpus), {one.path for one in holder.pairs}) == (2, 2, {"PIX"})
    assert {one.resource: one.held for one in holder.held} == {RESOURCE: 2, GPU_RESOURCE: 2}
    assert (free(busy), sum(gpu_counts(busy).values())) == (HCAS - 2, ROOM - 2)
    taken = {one.address for one in busy.devices if one.held}
    assert taken == {*holder.hcas, *holder.gpus}
    assert {one.kind for one in busy.devices} == {DeviceKind.HCA, DeviceKind.GPU}
    assert (left.devices, left.counts) == (idle.devices, idle.counts)
    assert left.sequence > busy.sequence > idle.sequence


def gpu_counts(now: Record) -> dict[tuple[int, ...], int]:
    """Free GPUs by NUMA nodes."""
    return {one.numa_nodes: one.free for one in now.counts if one.resource == GPU_RESOURCE}


def bound_token(agent: InstalledAgent) -> str:
    """A token as the agent's own pod has it, which names the pod's node."""
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={agent.pod()}")
    return agent.cluster.kubectl("create", "token", AGENT_COMPONENT, "-n", NAMESPACE, *bound).strip()


async def refusal(kubeconfig: Path, node: str) -> str | None:
    """What the API server says to whoever would write the record of ``node``; None where it would let them."""
    api = KubeApi(str(kubeconfig))
    now = Record(node_uid="u", boot_id="b", version="1")
    try:
        await api.patch(f"{RECORDS}/{node}", claim(node, "u"), APPLY, TRY)
        await api.patch(f"{RECORDS}/{node}/status", content(node, now), APPLY, TRY)
    except KubeError as error:
        if error.status != FORBIDDEN:
            raise
        return error.message
    finally:
        await api.close()
    return None


async def test_an_agent_writes_its_own_record_alone(agent: InstalledAgent, tmp_path: Path) -> None:
    """With the token of this node's agent another node's record is refused, and the own one is not."""
    token = await asyncio.to_thread(bound_token, agent)
    kubeconfig = kubeconfig_with(agent.cluster, tmp_path / "agent", token)

    assert await refusal(kubeconfig, agent.node.name) is None
    told = await refusal(kubeconfig, "other")
    assert told is not None
    assert "an agent may write the record of its own node alone: this is other, and its token is bound to" in told
    assert agent.node.name in told


async def test_a_token_without_a_node_writes_nothing(agent: InstalledAgent, tmp_path: Path) -> None:
    """A token that was made for nobody's pod does not tell whose agent speaks."""
    words = ("create", "token", AGENT_COMPONENT, "-n", NAMESPACE)
    token = (await asyncio.to_thread(agent.cluster.kubectl, *words)).strip()
    told = await refusal(kubeconfig_with(agent.cluster, tmp_path / "agent", token), agent.node.name)

    assert told is not None
    assert "its token is bound to no node" in told


def test_an_administrator_may_write_any(kubectl: Kubectl) -> None:
    """The policy is about agents: others do what their own rights allow."""
    made = msgspec.json.encode(claim("other", "u")).decode()

    kubectl("create", "--dry-run=server", "-f", "-", stdin=made)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("mode", "often", id="a-mode-that-is-none"),
        pytest.param("hcas", -1, id="fewer-than-none"),
        pytest.param("registered", "maybe", id="neither-yes-nor-no"),
    ],
)
def test_nonsense_is_no_record(agent: InstalledAgent, kubectl: Kubectl, field: str, value: object) -> None:
    """The API server takes no status that its readers could not understand."""
    pool = {"resource": "a", "share": 1, "registered": True, "hcas": 1, "free": 1, field: value}
    status = {"status": {"nodeUid": "u", "bootId": "b", "version": "v", "pools": [pool]}}
    words = ("--subresource=status", "--type=merge", "--dry-run=server", "-p", json.dumps(status))

    with pytest.raises(CommandError, match=rf"pools\[0\]\.{field}"):
        kubectl("patch", "rdmanodes", agent.node.name, *words)


def test_the_agent_is_killed(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """The record of an agent that starts anew says the same of the node, under the next number."""
    with running(kubectl, "holder"):
        before = record(agent, lambda now: bool(now.holders and now.holders[0].hcas))
        os.kill(agent.process(), signal.SIGKILL)
        waiting.until(lambda: not listened_to(agent), "the agent to go")
        waiting.until(lambda: listened_to(agent), "the agent to be back", timeout_s=60)
        after = record(agent, lambda now: now.sequence > before.sequence and now.pools[0].registered)

        assert (after.holders, of_hcas(after)) == (before.holders, of_hcas(before))
        assert (after.boot_id, after.agent_uid) == (before.boot_id, before.agent_uid)


def test_the_agent_is_replaced(agent: InstalledAgent) -> None:
    """The next pod's record is its own, so that readers look at the right pod's readiness."""
    before = record(agent, is_idle)
    agent.replace()
    after = record(agent, lambda now: now.agent_uid != before.agent_uid and is_idle(now))

    assert after.sequence > before.sequence


def test_the_api_server_is_away(agent: InstalledAgent) -> None:
    """What happened meanwhile stands in the record as soon as the API server is back."""
    server = agent.cluster.control_plane.api_server
    before = record(agent, is_idle)
    name = next(one.name for one in before.devices if one.kind is DeviceKind.HCA)
    server.kill()
    try:
        set_port(agent.machine.tree, name, DOWN)
        waiting.until(lambda: agent.status()["record"]["standing"] == "away", "a try that fails")
        not_ready = agent.status()["notReady"]
    finally:
        server.start()
    try:
        after = record(agent, lambda now: illness(now, name) is not None, timeout_s=BACK_S)
    finally:
        set_port(agent.machine.tree, name, ACTIVE)
    record(agent, is_idle)

    assert (illness(after, name), free(after)) == (Code.NO_ACTIVE_PORT, HCAS - 1)
    assert after.sequence > before.sequence
    assert not_ready == []


def test_the_definition_is_deleted_and_made_anew(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """Without it the agent serves its node and is ready; with it the record is back, and its numbers go on."""
    before = record(agent, is_idle)
    kubectl("delete", "crd", "rdmanodes.railside.dev")
    try:
        with running(kubectl, "holder"):
            waiting.until(lambda: agent.status()["record"]["standing"] == "no-kind", "a try that fails")
            pod = kubectl.wait(Pod, agent.pod(), lambda one: one.running, namespace=NAMESPACE)
    finally:
        kubectl.apply(DEFINITION)
        kubectl("wait", "--for=condition=Established", "crd/rdmanodes.railside.dev")
    after = record(agent, is_idle, timeout_s=BACK_S)

    assert after.sequence > before.sequence
    assert pod.running
    assert RECORD_KIND in kubectl("get", "rdmanodes", agent.node.name, "-o", "yaml")


def test_the_node_is_made_anew(agent: InstalledAgent, kubectl: Kubectl) -> None:
    """A Node that is deleted and registers again under its name owns the record, which says so."""
    before = record(agent, is_idle)
    kubectl("delete", "node", agent.node.name, "--wait=false")
    kubectl.wait_gone(Node, agent.node.name)
    agent.node.kubelet.restart()
    kubectl.wait(Node, agent.node.name, lambda node: node.usable, timeout_s=60)
    after = record(agent, lambda now: now.node_uid != before.node_uid and is_idle(now), timeout_s=BACK_S)
    found = kubectl.wait(RdmaNode, agent.node.name, lambda one: one.status is not None)

    assert found.metadata.owner_references == (Owner("Node", after.node_uid),)
    kubectl.apply(example_pod("later"))
    kubectl.wait(Pod, "later", lambda pod: pod.running, timeout_s=60)
    remove(kubectl, "later")
