"""What a List of pods does on the real kubelet while it deals devices: it gives one to two pods.

It answers for the harm behind law 5. It must not test the agent.
"""

import asyncio
from collections.abc import Iterator

import pytest

from careless import DEAF, Ground, by_name, ground
from harness.cluster import Cluster
from harness.objects import Pod
from kubelets import list_pods

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def shared(cluster: Cluster) -> Iterator[Ground]:
    with ground(cluster) as made:
        yield made


@pytest.fixture
def on(shared: Ground) -> Iterator[Ground]:
    """The node, with nothing on it."""
    yield shared
    shared.clear()


@pytest.mark.parametrize("lists", [True, False], ids=["listed", "not-listed"])
def test_pods_are_listed_while_one_is_dealt_its_hca(on: Ground, *, lists: bool) -> None:
    """Law 5: a List behind a pod's end forgets what is being dealt, and the next pod gets the same HCA."""
    plugin = on.plugin({"h0": 0, "h1": 0}, preference=by_name)
    on.start(on.pod("first"))
    on.start(on.pod("ending", *DEAF))
    on.remove("first")

    async def until_it_has_ended() -> None:
        await asyncio.to_thread(on.kubectl.wait_gone, Pod, "ending")
        if lists:
            await list_pods(on.folder)

    plugin.plugin.before_answer = until_it_has_ended
    on.kubectl("delete", "pod", "ending", "--grace-period=2", "--wait=false")
    on.start(on.pod("second"))
    plugin.plugin.before_answer = nothing
    on.start(on.pod("third"))

    assert on.held("second") == {"h0"}
    assert on.held("third") == ({"h0"} if lists else {"h1"})


async def nothing() -> None:
    """Holds up nobody."""
