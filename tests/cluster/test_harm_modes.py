"""What lists do after a switch of the mode, while containers of the old one run on the real kubelet.

It answers for the harm behind law 7. It must not test the agent.
"""

from collections.abc import Iterator

import pytest

from asking import refused
from careless import Careless, by_name
from ground import Ground

pytestmark = pytest.mark.timeout(180)

SHARES = {f"{hca}#{slot}": 0 for hca in ("busy", "idle") for slot in range(4)}
"""Two HCAs, each for four containers."""

HELD = {f"busy#{slot}": 0 for slot in range(3)}
BUSY, IDLE = {"busy": 0}, {"idle": 0}


SWITCHES = {
    "all of it": (BUSY | IDLE | HELD, (), (5, 5), {"busy", "idle"}),
    "held ids Unhealthy": (BUSY | IDLE | HELD, HELD, (5, 2), set()),
    "held ids gone": (BUSY | IDLE, (), (2, 2), set()),
    "the busy HCA Unhealthy": (BUSY | IDLE | HELD, BUSY, (5, 4), {"idle"}),
    "the busy HCA left out": (IDLE | HELD, (), (4, 4), {"idle"}),
}
"""What is listed after a switch to one container an HCA, what of it Unhealthy; the node's capacity and
allocatable, and what new pods get. The right answer is one pod more, on the idle HCA."""


@pytest.fixture(scope="module")
def switching(shared: Ground) -> Iterator[Careless]:
    """A plugin whose three holders all have a share of the busy HCA."""
    plugin = shared.plugin(SHARES, preference=by_name)
    holders = [f"holder-{number}" for number in range(len(HELD))]
    shared.start(*map(shared.pod, holders))
    assert {one for holder in holders for one in shared.held(holder)} == set(HELD)
    yield plugin
    shared.clear()


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_to_one_container_an_hca(shared: Ground, switching: Careless, switch: str) -> None:
    """Law 7: of five lists two are right; the others over-commit the busy HCA or block the idle one."""
    ids, sick, (capacity, allocatable), got = SWITCHES[switch]
    switching.tell(ids, sick=sick)
    shared.await_offered(allocatable, capacity)
    names = [f"new-{number}" for number in range(4)]

    shared.ask(*map(shared.pod, names))
    pods = [shared.becomes(name, lambda pod: pod.running or refused(pod)) for name in names]
    dealt = {one for pod in pods if pod.running for one in shared.held(pod.metadata.name)}
    shared.remove(*names)

    assert dealt == got
    assert sum(pod.running for pod in pods) == len(got)
