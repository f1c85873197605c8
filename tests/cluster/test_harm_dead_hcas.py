"""What the list says of a dead HCA, and what pods come to by it on the real kubelet.

It answers for the harm behind law 8. It must not test the agent.
"""

import pytest

from asking import refused
from careless import by_name
from ground import Ground

pytestmark = pytest.mark.timeout(180)


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
