"""What a List of pods does on the real kubelet while it deals devices: it gives one to two pods.

It answers for the harm behind law 5. It must not test the agent.
"""

import pytest

from asking import DEAF
from careless import Careless, by_name
from ground import Ground
from harness.objects import Pod

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("lists", [True, False], ids=["listed", "not-listed"])
def test_pods_are_listed_while_one_is_dealt_its_hca(on: Ground, *, lists: bool) -> None:
    """Law 5: a List behind a pod's end forgets what is being dealt, and the next pod gets the same HCA."""
    plugin = on.plugin({"h0": 0, "h1": 0}, preference=by_name)
    on.start(on.pod("first"))
    on.start(on.pod("ending", *DEAF))
    on.remove("first")
    deal_behind_an_end(on, plugin, lists=lists)

    assert on.held("second") == {"h0"}
    assert on.held("third") == ({"h0"} if lists else {"h1"})


def deal_behind_an_end(on: Ground, plugin: Careless, *, lists: bool) -> None:
    """Pod ``ending`` ends while ``second`` is dealt an HCA, somebody may list pods, and ``third`` comes."""

    def until_it_has_ended() -> None:
        on.kubectl.wait_gone(Pod, "ending")
        if lists:
            on.pods_listed()

    plugin.hold_up("allocate", until_it_has_ended)
    on.kubectl("delete", "pod", "ending", "--grace-period=2", "--wait=false")
    on.start(on.pod("second"))
    plugin.hold_up("allocate", lambda: None)
    on.start(on.pod("third"))
