"""The whole agent beside kubelets that lack something: it serves all the same, and tells what is missing."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.conftest import MakeTree
from tests.unit.agent.living_node import LivingNode, device_nodes, living_node
from tests.unit.builders import LogLines

from railside_proto.reasons import Code
from railside_sim.ages import (
    AGES,
    KUBELET_1_18,
    KUBELET_1_20,
    KUBELET_1_22,
    KUBELET_1_24,
    KUBELET_1_34,
    KUBELET_1_37,
    Age,
)
from railside_sim.pods import Running

LACKS = {
    KUBELET_1_18: {Code.HOLDERS_NOT_TOLD, Code.ALLOCATABLE_NOT_TOLD, Code.PREFERENCE_NOT_ASKED},
    KUBELET_1_20: {Code.ALLOCATABLE_NOT_TOLD},
    KUBELET_1_22: {Code.ALLOCATABLE_NOT_TOLD},
    KUBELET_1_24: set(),
    KUBELET_1_34: set(),
    KUBELET_1_37: set(),
}


@pytest.fixture(params=AGES, ids=lambda age: age.release)
def age(request: pytest.FixtureRequest) -> Age:
    """Each release that the embedded kubelet can be."""
    chosen: Age = request.param
    return chosen


@pytest.fixture
async def node(age: Age, make_tree: MakeTree, kubelet_dir: Path, written: LogLines) -> AsyncIterator[LivingNode]:
    """A machine with a kubelet of that age."""
    root = await asyncio.to_thread(make_tree, "ecs.hpcpni3.45xlarge")
    async with living_node(LivingNode, root, kubelet_dir, written, age) as made:
        yield made


async def test_pods_get_and_keep_their_hcas(node: LivingNode) -> None:
    """HCAs are offered with their hints, given one to each, and kept over restarts of all that can restart."""
    async with node.agent():
        await node.allocatable(8)
        pods = [await node.run("one"), await node.run("two", 2)]
        given = [device_nodes(pod) for pod in pods]
        assert [len(names) for names in given] == [1, 2]
        assert len({name for names in given for name in names}) == 3
        await _restart_all(node)
    async with node.agent():
        # What is held is known by the checkpoint alone, whatever its form.
        seen = await node.until(lambda view: sum(one.held for one in view.pools[0].offer.seats) == 3)
        assert all(len(one.seat.numa_nodes) == 1 for one in seen.pools[0].offer.seats)
        # An agent that has not registered yet when the kubelet restarts may do so twice, and hang up on a start.
        await node.until(lambda view: view.pools[0].registration.streams == 1)
        assert await node.kubelet.restart(lambda: node.kubelet.status_of().allocatable == 8) == {}
        await _restart_all(node)
        waiting = [pod for pod in node.kubelet.pods.values() if not isinstance(pod, Running)]
        assert waiting == []
        assert [device_nodes(pod) for pod in node.kubelet.pods.values() if isinstance(pod, Running)] == given


async def _restart_all(node: LivingNode) -> None:
    for pod in ("one", "two"):
        await node.kubelet.restart_container(pod)


async def test_what_is_lacking_is_told_once(node: LivingNode, age: Age) -> None:
    """/status and the log say, once each, what this kubelet does not tell or ask; today's lacks nothing."""
    async with node.agent():
        await node.allocatable(8)
        await node.run("one")
        await node.run("two")
        # Both questions are answered in one asking, which sets either.
        await node.until(lambda view: view.holdings is not None or bool(view.lacks))
        await node.until(lambda view: LACKS[age] == _codes(view.lacks, *(pool.lacks for pool in view.pools)))
        status = await _status(node)
        assert {one["code"] for one in status["kubeletLacks"]} == LACKS[age]
        assert all(one["remedy"].startswith("do nothing") for one in status["kubeletLacks"])
    told = [line["reason"] for line in node.written.lines if line["event"] == "the kubelet lacks something"]
    assert sorted(told) == sorted(LACKS[age])
    assert "the kubelet does not say who holds what" not in node.written.events


def _codes(*lacks: tuple[Any, ...]) -> set[Code]:
    return {one.code for some in lacks for one in some}


async def _status(node: LivingNode) -> Any:  # noqa: ANN401 -- JSON
    async with (
        aiohttp.ClientSession(f"http://127.0.0.1:{node.settings.listen_port}") as session,
        session.get("/status") as answer,
    ):
        return await answer.json()
