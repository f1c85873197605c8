"""The story's first part: the agent registers, pods come for GPUs and HCAs, until all are taken.

It must not judge: the witness does.
"""

from fractions import Fraction

from railside_cli.demo.scene import Play
from railside_proto.names import GPU_RESOURCE

TRAINS = 3
"""Pods of one GPU and one HCA."""


async def registration(play: Play) -> None:
    """The kubelet hears of the HCAs."""
    play.page.step("The agent registers with the kubelet")
    await play.stage.until_offered(len(play.stage.hardware.hcas))
    play.page.say(
        "The kubelet is Kubernetes' own program on each node. It deals out devices by number, and knows of each"
        f" no more than its NUMA node. Now it has {play.counts()}; and {play.counts(GPU_RESOURCE)}."
    )
    play.show()
    play.page.say(
        "One column is one PCIe switch, with its GPU and its HCA; below each stands the pod that has it"
        f" ({play.page.signs.free} nobody).",
        style="dim",
    )


async def gpus_with_hcas(play: Play) -> Fraction:
    """Pods of one GPU and one HCA; how many pairs chance would have made."""
    names = [f"train-{number}" for number in range(TRAINS)]
    play.page.step("Pods ask for a GPU and an HCA")
    for name in names:
        await play.run(name, gpus=1)
    play.page.say(
        f"{_listed(names)} ask for one GPU and one HCA each. Which HCA a pod gets is said when its container"
        " starts: by then the agent knows which GPU the kubelet has dealt it."
    )
    play.show(*names)
    lucky = _lucky(play, names)
    play.page.say(
        "A pod's name twice in one column: its GPU and its HCA share a switch, the nearest there is. The pods"
        " themselves read that as PIX, the word of nvidia-smi; the demo has checked it against the machine. By"
        f" the kubelet's random numbers alone, {_plain(lucky)} of these {len(names)} GPUs would have met that HCA,"
        " on average."
    )
    return lucky


async def two_of_one_node(play: Play) -> Fraction:
    """A pod of two GPUs and two HCAs; how many pairs chance would have made."""
    play.page.step("A pod asks for two GPUs and two HCAs")
    await play.run("duo", gpus=2, hcas=2)
    zones = {hca.zone for hca in play.pod("duo").hcas}
    play.expect(len(zones) == 1, "duo got HCAs of two NUMA nodes")
    play.page.say(
        "duo gets both HCAs from one NUMA node (one half of the machine, with processors and memory of its own),"
        " and again each GPU has the HCA of its switch."
    )
    play.show("duo")
    lucky = _lucky(play, ["duo"])
    play.page.say(f"By chance it would have been {_plain(lucky)} of 2, on average.")
    return lucky


async def all_taken(play: Play) -> None:
    """The rest is filled up, and one pod more has to wait."""
    play.page.step("All HCAs are taken: a pod waits")
    free = play.stage.kubelet.status_of().allocatable - play.held()
    for number in range(free):
        await play.run(f"infer-{number}")
    sentence = await play.wait("late")
    last = f"infer-0 to infer-{free - 1}"
    play.page.say(f"{last} take one HCA each and no GPU. Then late asks for one, too, and Kubernetes says:")
    play.page.quote("the scheduler, of late", sentence)
    play.show()


def _lucky(play: Play, names: list[str]) -> Fraction:
    pods = [play.pod(name) for name in names]
    return sum((play.stage.hardware.chance(pod.gpus, len(pod.hcas)) for pod in pods), Fraction(0))


def _plain(number: Fraction) -> str:
    return f"{float(number):.3g}"


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
