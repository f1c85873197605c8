"""Pods that were refused, and how they come to be tried again."""

import asyncio
from typing import Any

import pytest
from tests.unit.builders import LogLines
from tests.unit.extender.nodes import cluster, pod, record
from tests.unit.extender.test_decider import decider
from tests.unit.running import running

from railside_extender.waiting import PATIENCE_SECONDS
from railside_extender.waker import Waker
from railside_proto.names import WAKE
from railside_runtime.cell import Cell
from railside_runtime.kube import Patch
from railside_runtime.kube_error import UNREACHED, KubeError


def test_a_node_that_became_fit_wakes_who_was_refused() -> None:
    """Once for each change, and only where the node is fit for somebody who waits (G10, B-SC-3)."""
    known = cluster(record(hcas=(0, 0)), record("b", hcas=(0, 0)))
    one = decider(known)
    one.filter(pod(gpus=4, hcas=4), ["a", "b"], 0.0)
    assert one.wake(1.0) is None
    known.see_record("a", record(hcas=(2, 2)), 2.0)
    assert one.wake(2.0) is None
    known.see_record("b", record("b", hcas=(4, 0)), 3.0)
    assert [one.wake(3.0), one.wake(3.0)] == ["b", None]


def test_nobody_is_woken_for_who_was_served_or_has_waited_long() -> None:
    """A pod that found its place, or was refused over a minute ago, needs nobody's help."""
    known = cluster(record(hcas=(0, 0)))
    one = decider(known)
    one.filter(pod("p", gpus=4, hcas=4), ["a"], 0.0)
    known.see_record("a", record(), 1.0)
    one.filter(pod("p", gpus=4, hcas=4), ["a"], 1.0)
    assert one.wake(1.0) is None
    one.filter(pod("q", gpus=8, hcas=8), ["a"], 2.0)
    known.see_record("a", record(sequence=2), 3.0)
    assert one.wake(2.0 + PATIENCE_SECONDS) is None


class _Api:
    """Keeps what it is asked to change, and refuses as often as told."""

    def __init__(self, refusals: int = 0) -> None:
        self.asked: list[tuple[str, Any]] = []
        self._refusals = refusals
        self.touched = asyncio.Event()

    async def until(self, count: int) -> None:
        """Return when so many were asked for."""
        while len(self.asked) < count:
            self.touched.clear()
            await self.touched.wait()

    async def patch(self, path: str, body: Any, content_type: Patch) -> bytes:  # noqa: ANN401 -- JSON
        assert content_type == "application/merge-patch+json"
        self.asked.append((path, body))
        self.touched.set()
        if self._refusals:
            self._refusals -= 1
            raise KubeError(UNREACHED, "away")
        return b"{}"


async def test_no_two_extenders_touch_alike() -> None:
    """What an extender left before its restart is another value than what it leaves now, which is noticed."""
    values = []
    for _ in range(2):
        api, nodes = _Api(), ["a"]
        waker = Waker(api, Cell(0), lambda nodes=nodes: nodes.pop() if nodes else None, LogLines().log)  # type: ignore[misc]
        async with running(waker):
            await api.touched.wait()
        values.append(api.asked[0][1]["metadata"]["annotations"][WAKE])
    assert values[0] != values[1]


@pytest.mark.parametrize("refusals", [0, 1])
async def test_one_annotation_is_all_that_is_touched(refusals: int) -> None:
    """Another value each time, as an equal one is no change; an API server that is away ends nothing."""
    api, moved, nodes = _Api(refusals), Cell(0), ["a", "b"]
    waker = Waker(
        api, moved, lambda: nodes.pop(0) if nodes else None, LogLines().log, pause_seconds=0.0, retry_seconds=0.0
    )
    async with running(waker):
        await api.until(1 + refusals)
        moved.set(1)
        await api.until(2 + refusals)
    assert [path for path, _ in api.asked] == [f"/api/v1/nodes/{node}" for node in "a" * (1 + refusals) + "b"]
    touches = [body["metadata"]["annotations"] for _, body in api.asked]
    assert {tuple(body) for _, body in api.asked} == {("metadata",)}
    assert touches[0].keys() == {WAKE}
    assert touches[0] != touches[1]
