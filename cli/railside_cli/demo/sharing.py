"""The story's third part: the node's label lets pods share HCAs, and takes that back while they do.

It must not judge: the witness does.
"""

from railside_cli.demo.scene import Play
from railside_cli.demo.stage import SHARES
from railside_proto.names import MODE_LABEL
from railside_proto.pool import Mode

GUESTS = ("guest-0", "guest-1", "guest-2")


async def shared(play: Play) -> None:
    """The label says that several containers may have one HCA."""
    play.page.step("A label lets pods share HCAs")
    held = play.held()
    await play.stage.label(Mode.IB_SHARED_MULTI)
    free = SHARES * len(play.stage.hardware.hcas) - held
    await play.stage.until_offered(held + free)
    play.share = SHARES
    play.nobody_is_hurt()
    play.page.say(
        f"Somebody sets the node's label {MODE_LABEL} to {Mode.IB_SHARED_MULTI}: now {SHARES} containers may have"
        f" one HCA (16, if nothing else is set). Nothing restarts, and the kubelet has {play.counts()}."
        f" {GUESTS[0]} to {GUESTS[-1]} come:"
    )
    for name in GUESTS:
        await play.run(name)
    play.show(*GUESTS)


async def no_longer_shared(play: Play) -> None:
    """The label goes back while HCAs are shared."""
    play.page.step("The label goes back")
    await play.stage.label(Mode.IB_SHARED)
    await play.stage.until_offered(play.held())
    play.share = 1
    play.nobody_is_hurt()
    sentence = await play.wait("late-2")
    play.page.say(
        f"{Mode.IB_SHARED} again, one container an HCA. Who shares one keeps it until it ends; nobody new comes"
        f" in. The kubelet has {play.counts()}, and a pod more waits:"
    )
    play.page.quote("the scheduler, of late-2", sentence)
    play.show()
