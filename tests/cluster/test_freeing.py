"""When the kubelet takes back what a pod holds: the extender and the agent's record rest on this.

It answers for pods that end by themselves and for pods that are deleted. It must not test the product.
"""

import pytest

from asking import Manifest
from ground import Ground
from harness.objects import Pod

pytestmark = pytest.mark.timeout(180)

TRIES = 5
LEAVES_SLOWLY = ("sh", "-c", "trap 'sleep 5; exit 0' TERM; sleep 100000 & wait")


def past_the_scheduler(on: Ground, name: str) -> Manifest:
    """A pod that no scheduler counts: the kubelet alone says whether there is anything for it."""
    manifest = on.pod(name)
    manifest["spec"]["nodeName"] = on.node.name
    return manifest


def is_admitted(on: Ground, name: str) -> bool:
    """Whether the kubelet has anything for a pod that comes now."""
    on.ask(past_the_scheduler(on, name))
    found = on.becomes(name, lambda pod: pod.running or pod.status.phase == "Failed")
    return found.running


def test_a_pod_that_is_deleted_holds_until_its_containers_have_ended(on: Ground) -> None:
    """Told to end, it holds on while it ends; when its object is gone, what it had is free at once (B-SC-20)."""
    on.plugin({"only": 0})
    manifest = on.pod("holder", *LEAVES_SLOWLY)
    manifest["spec"]["terminationGracePeriodSeconds"] = 30
    on.start(manifest)
    on.kubectl("delete", "pod", "holder", "--wait=false")
    assert not is_admitted(on, "too-early")
    on.kubectl.wait_gone(Pod, "holder")
    assert is_admitted(on, "in-time")


def test_a_pod_that_has_finished_holds_nothing(on: Ground) -> None:
    """When the API server shows it Succeeded, the next pod gets what it had: at once, each time."""
    on.plugin({"only": 0})
    outcomes = []
    for number in range(TRIES):
        manifest = on.pod(f"job-{number}", "sh", "-c", "sleep 0.3")
        manifest["spec"]["restartPolicy"] = "Never"
        on.ask(manifest)
        on.becomes(f"job-{number}", lambda pod: pod.status.phase == "Succeeded")
        outcomes.append(is_admitted(on, f"next-{number}"))
        on.remove(f"next-{number}")
    assert outcomes == [True] * TRIES
