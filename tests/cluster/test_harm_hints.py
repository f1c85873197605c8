"""What NUMA hints that some ids have and some have not do to pods on the real kubelet.

It answers for the harm behind law 4. It must not test the agent.
"""

from collections.abc import Iterator

import pytest

from asking import DEAF
from careless import by_name
from ground import Ground, ground
from harness.cluster import Cluster

pytestmark = pytest.mark.timeout(180)

REFUSED = "TopologyAffinityError"


@pytest.fixture(scope="module")
def shared(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Ground]:
    with ground(cluster, request.param) as made:
        yield made


def outcome(on: Ground, name: str, count: int = 1) -> str:
    """What becomes of a new pod: the ids that it gets, or why it fails."""
    on.ask(on.pod(name, *DEAF, count=count))
    pod = on.becomes(name, lambda pod: pod.running or pod.status.phase == "Failed")
    return ",".join(sorted(on.held(name))) if pod.running else pod.status.reason


@pytest.mark.parametrize("shared", ["best-effort", "restricted"], indirect=True)
def test_a_bare_id_beside_hinted_ones(on: Ground) -> None:
    """Law 4: counted as free, a bare id is dealt under best-effort alone, and elsewhere fails whoever is sent."""
    on.plugin({"bare": None, "hinted": 0}, preference=by_name)
    assert outcome(on, "one") == "hinted"
    assert outcome(on, "two") == {"best-effort": "bare"}.get(on.node.settings.policy, REFUSED)


@pytest.mark.parametrize("shared", ["best-effort", "restricted", "single-numa-node"], indirect=True)
def test_hints_that_come_to_held_ids(on: Ground) -> None:
    """Law 4: ids of a running pod that turn out to be of two NUMA nodes have it killed at the next restart."""
    plugin = on.plugin(dict.fromkeys(("h0", "h1", "h2", "h3")), preference=by_name)
    assert outcome(on, "holder", 2) == "h0,h1"

    plugin.tell({"h0": 0, "h1": 1, "h2": 0, "h3": 1})
    assert on.restart_kubelet(list_comes=plugin.register)
    on.start(on.pod("later"))
    kept = on.node.settings.policy == "best-effort"
    after = on.becomes("holder", lambda pod: kept or pod.status.phase == "Failed")

    assert after.running == kept
    assert after.status.reason == ("" if kept else REFUSED)
