"""What a careless plugin's answers do at a container's later starts on the real kubelet and containerd.

It answers for the harm behind law 9. It must not test the agent.
"""

import pytest

from asking import status
from ground import Ground
from harness.objects import Pod
from machine_tree import make_nodes, renumber
from test_document import end_first_process

pytestmark = pytest.mark.timeout(180)


def started_again(pod: Pod) -> bool:
    return pod.running and status(pod).restart_count == 1


def test_an_empty_directory_starts_a_container_without_its_hca(on: Ground) -> None:
    """Law 9: the runtime walks a directory that a plugin left empty, and starts the container all the same."""
    folder = on.node.folder / "empty/dev/infiniband"
    folder.mkdir(parents=True)
    on.plugin({"one": 0}, devices={"one": folder})
    on.start(on.pod("careless"))

    assert "No such file or directory" in on.devices_inside("careless")


def test_a_renumbered_node_is_handed_over_as_it_is_by_then(on: Ground) -> None:
    """Law 9: the kubelet replays its first answer at each start, and the path is another HCA's by now."""
    mine, others = make_nodes(on.node.folder / "renumbered/dev/infiniband", 2)
    plugin = on.plugin({"one": 0}, devices={"one": mine})
    on.start(on.pod("careless"))
    before = on.devices_inside("careless")

    renumber(mine, others)
    end_first_process(on.kubectl, "careless")
    on.becomes("careless", started_again)

    assert before != on.devices_inside("careless")
    assert [one.call for one in plugin.asked] == ["allocate"]


def test_a_boot_that_finds_the_hcas_in_another_order(on: Ground) -> None:
    """Law 9: two pods that were dealt an HCA each before a boot have each other's behind it."""
    hcas = make_nodes(on.node.folder / "booted/dev/infiniband", 2)
    ids = dict(zip(("one", "two"), hcas, strict=True))
    plugin = on.plugin(dict.fromkeys(ids, 0), devices=ids)
    pods = ("first", "second")
    on.start(*map(on.pod, pods))
    before = [numbers(on, pod) for pod in pods]
    dealt = [on.held(pod) for pod in pods]

    on.node.lose_power()
    renumber(*hcas, swap=True)
    assert on.boot(list_comes=plugin.register)
    for pod in pods:
        on.becomes(pod, started_again)

    assert [numbers(on, pod) for pod in pods] == before[::-1]
    assert [on.held(pod) for pod in pods] == dealt
    assert [one.call for one in plugin.asked] == ["allocate"] * 2


def numbers(on: Ground, pod: str) -> str:
    """Numbers of a container's one device node."""
    (line,) = on.devices_inside(pod).splitlines()
    return line.split()[-2]
