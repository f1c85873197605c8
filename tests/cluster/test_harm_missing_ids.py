"""What a missing id does on the real kubelet: it looks the id up, finds nothing, and crashes.

It answers for the harm behind the laws 1, 2 and 6. It must not test the agent.
"""

import pytest

from asking import status
from careless import by_name
from ground import Ground
from harness import waiting
from machine_tree import make_nodes

pytestmark = pytest.mark.timeout(180)

CRASHES = 3
"""Restarts that a supervisor may make before one believes that it would go on for ever."""


def test_a_held_id_that_is_gone_crashes_the_kubelet_at_every_start(on: Ground) -> None:
    """Law 1: an HCA went under its pod, and each kubelet that a supervisor starts crashes until the id is back."""
    plugin = on.plugin({"held": 0, "other": 0}, preference=by_name)
    (before,) = on.start(on.pod("holder"))
    assert on.held("holder") == {"held"}
    crashes = on.crashes()

    plugin.tell({"other": 0})
    lived = [on.restart_kubelet(list_comes=plugin.register) for _ in range(CRASHES)]

    assert lived == [False] * CRASHES
    assert on.crashes() == crashes + CRASHES
    plugin.tell({"held": 0, "other": 0}, sick={"held"})
    assert on.restart_kubelet(list_comes=plugin.register)
    after = on.becomes("holder", lambda pod: pod.running)
    assert status(before).container_id == status(after).container_id


@pytest.mark.parametrize("call", ["allocate", "preferred"])
def test_an_id_that_goes_while_the_kubelet_asks_for_it_crashes_it(on: Ground, call: str) -> None:
    """Law 1: an HCA goes between the kubelet's choice and the plugin's answer, whatever the kubelet asks."""
    plugin = on.plugin({"chosen": 0, "other": 0}, preference=by_name)
    crashes = on.crashes()

    def loses_it() -> None:
        plugin.tell({"other": 0})
        waiting.until(lambda: on.listed() == {"other"}, "the kubelet to take note")

    plugin.hold_up(call, loses_it)
    on.ask(on.pod("newcomer"))
    on.await_crash()

    assert on.crashes() == crashes + 1
    assert plugin.asked[-1].ids == ("chosen",)


def test_a_foreign_id_that_nobody_adopts(on: Ground) -> None:
    """Law 2: another scheme's successor gives a running pod's HCA to a second pod, then crashes the kubelet."""
    hcas = make_nodes(on.node.folder / "taken-over/dev/infiniband", 2)
    foreign = on.plugin({"theirs": 0}, devices={"theirs": hcas[0]}, socket="foreign.sock")
    on.start(on.pod("leftover"))
    foreign.end()
    own = dict(zip(("hca0", "hca1"), hcas, strict=True))
    successor = on.plugin(dict.fromkeys(own, 0), preference=by_name, devices=own)
    on.start(on.pod("newcomer"))
    crashes = on.crashes()

    assert on.devices_inside("leftover") == on.devices_inside("newcomer")
    assert not on.restart_kubelet(list_comes=successor.register)
    assert on.crashes() == crashes + 1


def test_a_plugin_that_believes_the_list_of_pods_at_a_start(on: Ground) -> None:
    """Law 6: a kubelet that has just started lists no pods, and whoever drops what they hold crashes it."""
    plugin = on.plugin({"held": 0, "other": 0}, preference=by_name)
    on.start(on.pod("holder"))
    crashes = on.crashes()
    assert on.pods_listed() == {"holder"}

    def drops_what_nobody_is_said_to_hold() -> None:
        plugin.tell({"other": 0} if "holder" not in on.pods_listed() else {"held": 0, "other": 0})
        plugin.register()

    assert not on.restart_kubelet(list_comes=drops_what_nobody_is_said_to_hold)
    assert on.crashes() == crashes + 1
