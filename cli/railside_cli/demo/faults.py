"""The story's second part: an HCA dies under a pod and comes back, and the kubelet restarts.

It must not judge: the witness does.
"""

from railside_cli.demo.hardware import Card
from railside_cli.demo.scene import Play, now, why
from railside_cli.demo.stage import NODE, RECOVERY_SECONDS
from railside_proto.machine import PortState
from railside_proto.reasons import Code
from railside_sim.pods import Running

HURT = "train-0"
"""The pod whose HCA dies."""

GUEST = "late"
"""The pod that had to wait for its HCA."""


async def an_hca_dies(play: Play) -> Card:
    """A port goes down under a pod: who is told, and what others get; the dead HCA."""
    dead = play.pod(HURT).hcas[0]
    play.page.step(f"{dead.name} dies while {HURT} uses it")
    play.marked.add(dead.name)
    play.kept_out.add(dead.name)
    began = now()
    await play.stage.set_port(dead.name, PortState.DOWN)
    told = await play.event("Pod", HURT, Code.NO_ACTIVE_PORT)
    await play.event("Node", NODE, Code.NO_ACTIVE_PORT)
    play.page.say(
        f"Its port goes down ({play.page.signs.dead} in the picture). {now() - began:.1f} s later the pod and the"
        " node have an Event about it, which kubectl describe shows:"
    )
    play.page.quote(f"the agent, of {HURT} and of {NODE}", told.message)
    gone = _idle_pod(play, dead, near=False)
    await play.end(gone)
    play.page.say(
        f"Then {gone} ends. The kubelet has {play.counts()}. The dead HCA counts among the held ones, so that it"
        f" does not hide the idle one. {GUEST}, which has waited, gets that, and not the dead one:"
    )
    await play.run(GUEST)
    play.show(GUEST)
    return dead


async def its_container_restarts(play: Play) -> None:
    """Nothing else is free, so it waits."""
    play.page.step(f"{HURT}'s container restarts")
    outcome = await play.restart(HURT)
    play.expect(not isinstance(outcome, Running), f"{HURT} runs on a dead HCA")
    play.page.say(
        "No other HCA of its NUMA node is free, so it waits. The second half of the reason is the agent's (a zone"
        " is a NUMA node here):"
    )
    play.page.quote(f"the kubelet, of {HURT}", why(outcome))


async def another_gets_free(play: Play, dead: Card) -> None:
    """The waiting container gets an HCA that is farther off."""
    gone = _idle_pod(play, dead, near=True)
    play.page.step(f"{gone} ends, and {HURT} starts")
    play.page.say(
        f"{gone} had an HCA of the same NUMA node. Once it has ended, the kubelet tries to start {HURT}'s"
        " container again, until it can:"
    )
    await play.end(gone)
    await play.start_again(HURT)
    told = await play.event("Pod", HURT, Code.FARTHER_THAN_NEEDED)
    play.show(HURT)
    play.page.say(f"NODE is the same NUMA node, but another switch. That is told, too, of {_gpu(play)}:")
    play.page.quote(f"the agent, of {HURT}", told.message)


async def it_comes_back(play: Play, dead: Card) -> None:
    """After a while without trouble it is offered again."""
    play.page.step(f"{dead.name} comes back")
    line, began = play.stage.words.count, now()
    full = play.stage.kubelet.status_of().allocatable
    await play.stage.set_port(dead.name, PortState.ACTIVE)
    said = await play.line("an HCA is sound again", line, hca=dead.place.address)
    waited = now() - began
    await play.stage.until(lambda: play.stage.kubelet.status_of().allocatable == full + 1)
    play.expect(waited >= RECOVERY_SECONDS, f"{dead.name} was offered again after {waited:.1f} s")
    play.kept_out.discard(dead.name)
    play.marked.discard(dead.name)
    play.page.say(
        "A port that comes and goes must not hurt one pod after the other: an HCA has to be well for a while"
        f" (here {RECOVERY_SECONDS:g} s, else 10 s) before anybody new gets it. {waited:.1f} s after its port came"
        " up:"
    )
    play.page.quote("the agent, in its log", said.text)
    await play.run("fresh-0")
    play.page.say(f"The kubelet now has {play.counts()}. The new pod fresh-0 got {dead.name}:")
    play.expect(dead in play.pod("fresh-0").hcas, f"{dead.name} was not dealt again")
    play.show("fresh-0")


async def the_kubelet_restarts(play: Play) -> None:
    """Nobody is hurt by that, and a container that starts behind it has what it had."""
    play.page.step("The kubelet restarts")
    (idle,) = play.pod(GUEST).hcas
    await play.end(GUEST)
    killed = await play.stage.restart_kubelet()
    play.expect(not killed, f"the kubelet's restart killed {', '.join(killed)}")
    play.nobody_is_hurt()
    again = _idle_pod(play, idle, near=True)
    await play.restart(again)
    play.nobody_is_hurt()
    play.page.say(
        "A kubelet that restarts forgets its plugins, admits every pod anew, and kills those whose devices are not"
        " all listed in time. The agent saw it restart, registered again and listed all that was held. Killed:"
        f" {', '.join(killed) or 'nobody'}."
    )
    play.page.say(
        f"Then {again}'s container restarts. {idle.name} on the same NUMA node is idle, as {GUEST} has ended, but"
        f" {again} keeps what it had. The new pod fresh-1 gets {idle.name}:"
    )
    await play.run("fresh-1")
    play.expect(idle in play.pod("fresh-1").hcas, f"fresh-1 did not get {idle.name}")
    play.show(again, "fresh-1")


def _gpu(play: Play) -> str:
    gpu = play.pod(HURT).gpus[0]
    return f"{gpu.name} ({gpu.place.address})"


def _idle_pod(play: Play, dead: Card, *, near: bool) -> str:
    """A pod without GPUs whose HCA is, or is not, on the dead one's NUMA node."""
    every = sorted(play.pods.values(), key=lambda one: one.pod)
    fitting = [one.pod for one in every if not one.gpus and {hca.zone == dead.zone for hca in one.hcas} == {near}]
    return fitting[0]
