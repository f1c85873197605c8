import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.living_node import LivingNode
from tests.unit.kube_server import FakeApiServer, Object

from railside_agent.publication import Standing
from railside_agent.status import not_ready
from railside_proto.names import BOOT_ID, MODE_LABEL, RECORDS, RESOURCE
from railside_proto.pool import Mode
from railside_proto.record import DeviceKind, Record, Source

_NODES = "/api/v1/nodes"


class _Cluster:
    """An API server that has the node, and what it is told of it."""

    def __init__(self, server: FakeApiServer, folder: Path) -> None:
        self.server = server
        self.settings = {
            "node_name": "n1",
            "kubeconfig": server.kubeconfig(folder),
            "mode": "label",
            "pod_uid": "a1",
        }
        server.put(_NODES, "n1", metadata={"labels": {MODE_LABEL: "ib-shared"}})

    @property
    def object(self) -> Object:
        return self.server.objects[RECORDS]["n1"]

    @property
    def record(self) -> Record | None:
        """The record as it stands there."""
        found = self.server.objects.get(RECORDS, {}).get("n1", {})
        return msgspec.convert(found["status"], Record) if "status" in found else None

    async def until(self, holds: Callable[[Record], bool]) -> Record:
        """The first record of which it holds."""
        await self.server.until(lambda: (now := self.record) is not None and holds(now))
        assert self.record is not None
        return self.record


@pytest.fixture
def cluster(server: FakeApiServer, tmp_path: Path) -> _Cluster:
    return _Cluster(server, tmp_path)


def _free(record: Record) -> int:
    return sum(pool.free for pool in record.pools)


async def test_a_node_is_told_of(node: LivingNode, cluster: _Cluster) -> None:
    """The whole agent publishes its node: HCAs, GPUs, counts, and what a pod gets, as soon as it has it."""
    async with node.agent(**cluster.settings):
        idle = await cluster.until(lambda now: _free(now) == 8 and now.pools[0].registered)
        pod = await node.run("train")
        busy = await cluster.until(lambda now: _free(now) == 7 and bool(now.holders and now.holders[0].hcas))
    assert (idle.boot_id, idle.agent_uid, idle.node_uid) == (
        (await asyncio.to_thread(Path(BOOT_ID).read_text)).strip(),
        "a1",
        cluster.server.objects[_NODES]["n1"]["metadata"]["uid"],
    )
    assert [(one.resource, one.mode, one.hcas) for one in idle.pools] == [(RESOURCE, Mode.IB_SHARED, 8)]
    assert [(one.numa_nodes, one.listed, one.free) for one in idle.counts] == [((0,), 4, 4), ((1,), 4, 4)]
    assert [one.kind for one in idle.devices].count(DeviceKind.GPU) == 8
    assert [one.name for one in idle.excluded] == ["mlx5_bond_0"]
    (holder,) = busy.holders
    (device,) = (one for one in busy.devices if one.address in holder.hcas)
    assert (device.held, device.free, holder.held[0].held) == (1, 0, 1)
    assert len(pod.seats) == 1
    assert busy.sequence > idle.sequence


async def test_the_next_agent_goes_on(node: LivingNode, cluster: _Cluster) -> None:
    """An agent that starts anew tells the same of its node, under its own name and the next number."""
    async with node.agent(**cluster.settings):
        await node.allocatable(8)
        await node.run("train")
        first = await cluster.until(lambda now: bool(now.holders and now.holders[0].hcas))
    async with node.agent(**{**cluster.settings, "pod_uid": "a2"}):
        second = await cluster.until(lambda now: now.agent_uid == "a2" and now.pools[0].registered)
    assert second.sequence > first.sequence
    assert (second.holders, second.devices, second.counts) == (first.holders, first.devices, first.counts)


async def test_a_node_without_a_name_publishes_nothing(node: LivingNode, cluster: _Cluster) -> None:
    """An agent that is not told its node's name has nothing to publish under, and is ready without."""
    async with node.agent(kubeconfig=cluster.settings["kubeconfig"]):
        await node.allocatable(8)
        view = await node.until(lambda view: not not_ready(view))
    assert view.publication.standing is Standing.OFF
    assert cluster.server.asked == []


async def test_by_setting_nothing_is_published(node: LivingNode, cluster: _Cluster) -> None:
    """Whoever wants no records gets none, and the agent never asks for the right to write them."""
    async with node.agent(**cluster.settings, publish="never"):
        await node.allocatable(8)
        await node.until(lambda view: view.pods.synced)
    assert RECORDS not in cluster.server.objects
    assert {one.method for one in cluster.server.asked} == {"GET"}


@pytest.mark.parametrize(("publish", "ready"), [("auto", True), ("always", False)])
async def test_a_cluster_without_records(
    node: LivingNode, cluster: _Cluster, publish: str, *, ready: bool
) -> None:
    """Where nobody has defined such records the agent serves its node, and is ready unless it is to insist."""
    cluster.server.unknown.add(RECORDS)
    async with node.agent(**cluster.settings, publish=publish):
        await node.allocatable(8)
        view = await node.until(lambda view: view.publication.standing is Standing.NO_KIND)
        assert ready == (not not_ready(view))


async def test_a_kubelet_that_tells_nothing_is_told_of(node: LivingNode, cluster: _Cluster) -> None:
    """Outside of a pod there is no token for the kubelet: the record says why its policy is not known."""
    cluster.server.put(
        _NODES,
        "n1",
        metadata={"labels": {MODE_LABEL: "ib-shared"}},
        status={"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]},
    )
    async with node.agent(**cluster.settings):
        record = await cluster.until(lambda now: bool(now.kubelet.detail))
        await node.until(lambda view: view.publication.standing is Standing.WRITTEN)
    assert (record.kubelet.source, record.kubelet.topology_policy) == (Source.UNKNOWN, None)
    assert record.kubelet.detail.startswith("there are no credentials to ask with")
