"""What a plugin that comes late, or with its held ids Unhealthy, does to pods on the real kubelet.

It answers for the harm behind law 3. It must not test the agent.
"""

import pytest

from asking import DEAF, status
from careless import by_name
from ground import Ground
from harness.objects import Pod
from railside_proto.names import RESOURCE

pytestmark = pytest.mark.timeout(240)

IDS = {f"h{number}": 0 for number in range(4)}
SPARED = "plain"
KILLED = ("init", "looping")


def three_pods(on: Ground) -> None:
    """One that only runs, and two that the kubelet deals devices anew at its restart: not all of them runs."""
    on.ask(on.pod(SPARED), on.pod("init", *DEAF, init=True), on.pod("looping", "false"))
    on.becomes(SPARED, lambda pod: pod.running)
    on.becomes("init", lambda pod: pod.running)
    on.becomes("looping", loops)


def loops(pod: Pod) -> bool:
    waits = [one.state.waiting for one in pod.status.container_statuses]
    return any(one is not None and one.reason == "CrashLoopBackOff" for one in waits)


def killed(on: Ground) -> dict[str, str]:
    """Why each pod of KILLED ended; returns when the plain one is known to run on."""
    before = status(on.seen(SPARED)).container_id
    ends = {name: on.becomes(name, lambda pod: pod.status.phase == "Failed").status for name in KILLED}
    on.start(on.pod("later"))
    assert status(on.becomes(SPARED, lambda pod: pod.running)).container_id == before
    return {name: f"{end.reason}: {end.message}" for name, end in ends.items()}


def words(error: str) -> str:
    """How the kubelet says that it gives a pod no devices."""
    return (
        "UnexpectedAdmissionError: Pod was rejected: Allocate failed due to"
        f" {error}; cannot allocate unhealthy devices {RESOURCE}, which is unexpected"
    )


def test_a_plugin_that_comes_late(on: Ground) -> None:
    """Law 3: in time nobody is hurt; too late, a pod is killed if any container of it does not run."""
    plugin = on.plugin(IDS, preference=by_name)
    three_pods(on)

    refusals = on.refusals()
    assert on.restart_kubelet(list_comes=plugin.register)
    on.start(on.pod("after"))
    assert on.refusals() == refusals
    on.remove("after")

    plugin.end()
    assert on.restart_kubelet(list_comes=None)
    plugin.register()
    assert killed(on) == dict.fromkeys(KILLED, words("no healthy devices present"))


def test_held_ids_that_are_unhealthy_at_a_restart(on: Ground) -> None:
    """Law 3: a plugin that is in time, and tells the truth about held HCAs at once, kills the same pods."""
    plugin = on.plugin(IDS, preference=by_name)
    three_pods(on)

    plugin.tell(IDS, sick=set(IDS) - {"h3"})
    assert on.restart_kubelet(list_comes=plugin.register)
    plugin.tell(IDS)
    assert killed(on) == dict.fromkeys(KILLED, words("previously allocated devices are no longer healthy"))
