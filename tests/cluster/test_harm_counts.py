"""What a list that tells the kubelet too many or too few HCAs does to pods on the real kubelet.

It answers for the harm behind the laws 7 and 8. It must not test the agent.
"""

from collections.abc import Iterator

import pytest

from careless import Careless, Ground, by_name, ground, refused
from harness.cluster import Cluster

pytestmark = pytest.mark.timeout(240)

SHARES = {f"{hca}#{slot}": 0 for hca in ("busy", "idle") for slot in range(4)}
"""Two HCAs, each for four containers."""

HELD = {f"busy#{slot}": 0 for slot in range(3)}
BUSY, IDLE = {"busy": 0}, {"idle": 0}


@pytest.fixture(scope="module")
def shared(cluster: Cluster) -> Iterator[Ground]:
    with ground(cluster) as made:
        yield made


@pytest.fixture
def on(shared: Ground) -> Iterator[Ground]:
    """The node, with nothing on it."""
    yield shared
    shared.clear()


SWITCHES = {
    "all of it": (BUSY | IDLE | HELD, (), (5, 5), {"busy", "idle"}),
    "held ids Unhealthy": (BUSY | IDLE | HELD, HELD, (5, 2), set()),
    "held ids gone": (BUSY | IDLE, (), (2, 2), set()),
    "the busy HCA Unhealthy": (BUSY | IDLE | HELD, BUSY, (5, 4), {"idle"}),
    "the busy HCA left out": (IDLE | HELD, (), (4, 4), {"idle"}),
}
"""What is listed after a switch to one container an HCA, what of it Unhealthy; the node's capacity and
allocatable, and what new pods get. The right answer is one pod more, on the idle HCA."""


@pytest.fixture(scope="class")
def switching(shared: Ground) -> Iterator[Careless]:
    """A plugin whose three holders all have a share of the busy HCA."""
    plugin = shared.plugin(SHARES, preference=by_name)
    shared.start(*(shared.pod(f"holder-{number}") for number in range(len(HELD))))
    yield plugin
    shared.clear()


class TestASwitchToOneContainerAnHca:
    """Three containers share the busy HCA, and none the idle one, when each HCA becomes one container's."""

    @pytest.mark.parametrize("switch", SWITCHES)
    def test_one_pod_more_is_right(self, shared: Ground, switching: Careless, switch: str) -> None:
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


def test_a_dead_hca_that_is_unhealthy_while_it_is_held(on: Ground) -> None:
    """Law 8: the scheduler takes the holder from what is healthy, and an idle HCA waits for nobody."""
    plugin = on.plugin({"dead": 0, "idle": 0}, preference=by_name)
    on.start(on.pod("holder"))
    plugin.tell({"dead": 0, "idle": 0}, sick={"dead"})
    on.await_offered(1, 2)

    on.ask(on.pod("newcomer"))
    on.becomes("newcomer", refused)

    assert on.held("holder") == {"dead"}
    on.remove("holder")
    on.becomes("newcomer", lambda pod: pod.running)
    assert on.held("newcomer") == {"idle"}


def test_a_dead_hca_that_is_healthy_when_its_holder_goes(on: Ground) -> None:
    """Law 8: whoever waits gets the dead HCA in the moment in which its holder goes."""
    on.plugin({"dead": 0, "idle": 0}, preference=by_name)
    on.start(on.pod("holder"))
    on.start(on.pod("other"))
    on.ask(on.pod("waiting"))
    on.becomes("waiting", refused)
    on.remove("holder")
    on.becomes("waiting", lambda pod: pod.running)

    assert on.held("waiting") == {"dead"}
