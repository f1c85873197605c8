from tests.hotplug.conftest import Watcher
from tests.hotplug.testbed import Testbed


def test_an_hca_that_comes_is_seen(testbed: Testbed, watcher: Watcher) -> None:
    """The messages for a new HCA, real libudev ones over a socket, bring it into the machine (B-DP-15)."""
    testbed.add_hca(1)
    hcas = watcher.until(lambda hcas: len(hcas) == 2)
    assert hcas["mlx5_1"]["uverbs"]["name"] == "uverbs1"
    assert (watcher.messages["heard"], watcher.messages.get("garbage")) == (3, None)


def test_an_hca_that_goes_and_comes_back_is_seen(testbed: Testbed, watcher: Watcher) -> None:
    """An HCA that is taken out leaves the machine; it is there again, with another node, when it comes back."""
    testbed.add_hca(1)
    watcher.until_names("mlx5_0", "mlx5_1")
    testbed.remove_hca(0)
    watcher.until_names("mlx5_1")
    testbed.add_hca(0)
    hcas = watcher.until(lambda hcas: len(hcas) == 2)
    assert hcas["mlx5_0"]["uverbs"]["name"] == "uverbs2"


def test_the_last_hca_goes(testbed: Testbed, watcher: Watcher) -> None:
    """A machine without any HCA left is a machine all the same."""
    testbed.remove_hca(0)
    watcher.until_names()


def test_a_change_is_seen(testbed: Testbed, watcher: Watcher) -> None:
    """A message of a change has the machine looked at again: here for a GUID that was set anew."""
    testbed.set_guid(0, "5c25:7303:00a1:ffff")
    watcher.until(lambda hcas: hcas["mlx5_0"]["nodeGuid"] == "5c25:7303:00a1:ffff")


def test_a_port_that_goes_down_is_seen_without_a_message(testbed: Testbed, watcher: Watcher) -> None:
    """The port's state is polled, as the kernel sends nothing when it changes (B-DP-37)."""
    testbed.set_port(0, "1: DOWN")
    watcher.until(lambda hcas: hcas["mlx5_0"]["ports"][0]["state"] == "DOWN")
    assert watcher.messages == {}
