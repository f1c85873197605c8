"""The story's last part, on a second node: another plugin's pod is still there, and one card is broken.

It must not judge: the witness does.
"""

import contextlib
from collections.abc import AsyncIterator

from railside_cli.demo.hardware import Card
from railside_cli.demo.scene import Play
from railside_cli.demo.stage import Stage
from railside_proto.machine import LinkLayer
from railside_proto.names import CONTAINER_DEVICES, DEVICE_PLUGINS, RESOURCE
from railside_sim.gpu_plugin import GpuPlugin

OLD = "old"
"""The pod that another plugin has served."""

_GARBAGE = "\x00\x7f?!\n"


@contextlib.asynccontextmanager
async def another_plugin(stage: Stage) -> AsyncIterator[None]:
    """A plugin of the same resource, as they mostly are: its ids are HCAs, and it answers with device nodes."""
    hcas = stage.hardware.hcas
    plugin = GpuPlugin(
        stage.kubelet_dir / DEVICE_PLUGINS, {one.name: one.place.numa_node for one in hcas}, resource=RESOURCE
    )
    plugin.nodes = {one.name: (f"{stage.root}{CONTAINER_DEVICES}/{one.key}",) for one in hcas}
    await plugin.serve_and_register()
    try:
        await stage.until_offered(len(hcas))
        yield
    finally:
        await plugin.end()


async def before_the_agent(play: Play) -> Card:
    """Another plugin serves a pod and goes, and one card breaks; that card."""
    async with another_plugin(play.stage):
        await play.run(OLD)
    taken = play.pod(OLD).hcas[0]
    broken = next(one for one in reversed(play.stage.hardware.hcas) if one != taken)
    await play.stage.write(_link_layer(broken), _GARBAGE)
    play.kept_out.update({taken.name, broken.name})
    play.marked.add(broken.name)
    return broken


async def a_leftover_pod(play: Play, broken: Card) -> None:
    """The agent finds the pod and leaves it alone."""
    play.page.step("Another node: a pod of another plugin is still there")
    usable = [one for one in play.stage.hardware.hcas if one != broken]
    await play.stage.until_offered(len(usable))
    taken = play.pod(OLD).hcas[0]
    news = [f"new-{number}" for number in range(len(usable) - 1)]
    for name in news:
        await play.run(name)
    killed = await play.stage.restart_kubelet()
    play.expect(not killed, f"the kubelet's restart killed {', '.join(killed)}")
    play.nobody_is_hurt()
    sentence = await play.wait("late")
    play.page.say(
        f"Before this node's agent started, another plugin of the same resource name gave {taken.name} to the pod"
        f" {OLD}, and went. The agent lists that plugin's id on, as a kubelet crashes over an id that is missing,"
        f" and reads from the kubelet's own notes which HCA it means. {news[0]} to {news[-1]} come, and the"
        f" kubelet restarts once: {OLD} lives, and nobody else gets {taken.name}."
    )
    play.show(OLD)
    play.page.say(f"The kubelet has {play.counts()}, though the machine has one more. Another pod waits:")
    play.page.quote("the scheduler, of late", sentence)


async def a_broken_card(play: Play, broken: Card) -> None:
    """Why a card is not offered, and what happens when it is mended."""
    play.page.step(f"Why {broken.name} is not offered")
    said = await play.line("device left out", device=broken.name)
    play.page.say(f"The file that should say what {broken.name} speaks holds garbage. Reason and remedy are told:")
    play.page.quote("the agent, in its log", said.text)
    full = play.stage.kubelet.status_of().allocatable
    await play.stage.write(_link_layer(broken), f"{LinkLayer.INFINIBAND}\n")
    await play.stage.until(lambda: play.stage.kubelet.status_of().allocatable == full + 1)
    play.kept_out.discard(broken.name)
    play.marked.discard(broken.name)
    await play.run("late")
    play.expect(broken in play.pod("late").hcas, f"late did not get {broken.name}")
    play.nobody_is_hurt()
    play.page.say(f"The driver is loaded anew, and the file is whole. late, which has waited, gets {broken.name}:")
    play.show("late")


def _link_layer(hca: Card) -> str:
    return f"sys/class/infiniband/{hca.name}/ports/1/link_layer"
