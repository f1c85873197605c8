"""The laws that the kubelet's ways make for a device plugin, each as a story that ends in a verdict.

What counts is what the kubelet's side and the containers see. It must not ask the plugin anything.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from tests.conformance.stage import Plugin, Stage, stage

from railside_proto.names import RESOURCE
from railside_sim.device import KubeletCrashedError
from railside_sim.gpu_plugin import GpuPlugin
from railside_sim.pod_spec import ContainerSpec, Pod
from railside_sim.pods import Running

HCAS: Final = 8

IN_TIME_SECONDS: Final = 1.2
"""From the kubelet's new socket to its admitting all pods again (kubelet 1.34, 37 restarts: 1.20 to 1.21 s)."""

_SETTLED_SECONDS: Final = 3.0
"""For a change that a plugin may or may not follow."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one story."""

    holds: bool
    seen: str
    """One sentence, of the harm where there is one."""


class Law(msgspec.Struct, frozen=True, kw_only=True):
    """One law and its story."""

    number: int
    title: str
    story: Callable[[Plugin], Awaitable[Verdict]]


class _BrokenError(Exception):
    """Ends a story with what was seen."""


def _demand(holds: bool, seen: str) -> None:  # noqa: FBT001 -- the point of it
    if not holds:
        raise _BrokenError(seen)


async def _running(on: Stage, name: str, count: int = 1) -> Running:
    outcome = await on.run(name, count)
    _demand(isinstance(outcome, Running), f"{name} does not run: {getattr(outcome, 'reason', '')}")
    assert isinstance(outcome, Running)
    return outcome


async def _offered(on: Stage, count: int = HCAS) -> None:
    offered = await on.offers(count)
    _demand(offered, f"{on.kubelet.status_of().allocatable} of {count} HCAs are offered{on.word_of_plugin}")


async def _new_pods(on: Stage, count: int, beside: int) -> None:
    """``count`` pods come, of which as many must run as there are HCAs left ``beside`` those in hands."""
    outcomes = [await on.run(f"new-{number}") for number in range(count)]
    running = sum(isinstance(one, Running) for one in outcomes)
    _demand(running == beside, f"{running} of {beside} new pods run{on.word_of_plugin}")


async def _restarted(on: Stage, *, seconds: float | None = None) -> None:
    """The kubelet restarts, and admits its pods when the plugin is back, or after so many seconds."""
    began = asyncio.get_running_loop().time()
    await on.kubelet.stop()
    await on.kubelet.start()
    await on.comes_to_be(lambda: on.kubelet.status_of().capacity > 0, seconds=seconds)
    # As the real one: a list that comes in parts may be whole by then.
    await asyncio.sleep(max(0.0, IN_TIME_SECONDS - (asyncio.get_running_loop().time() - began)))
    killed = await on.kubelet.readmit()
    told = "; ".join(f"{pod}: {failed.reason}" for pod, failed in sorted(killed.items()))
    _demand(not killed, f"the kubelet killed {told}")


async def _settled(on: Stage) -> None:
    """A plugin that offers less for what has changed does so within its time; others go on as they are."""
    await on.comes_to_be(lambda: on.kubelet.status_of().allocatable < HCAS, seconds=_SETTLED_SECONDS)


def _demand_one_hand_each(on: Stage) -> None:
    twice = {guid: pods for guid, pods in on.hands().items() if len(pods) > 1}
    _demand(not twice, f"an HCA is in two hands: {twice}")


def _holder(on: Stage, pod: str) -> str:
    """The one HCA that a pod has."""
    mine = [guid for guid, pods in on.hands().items() if pod in pods]
    _demand(len(mine) == 1 and ":" in mine[0], f"{pod} asked for one HCA, and has {', '.join(mine) or 'none'}")
    return mine[0]


async def _a_held_id_stays(plugin: Plugin) -> str:
    """An HCA goes while a pod holds it, and the kubelet restarts."""
    async with stage(plugin) as on:
        await _offered(on)
        await _running(on, "holder")
        await on.unplug(_holder(on, "holder"))
        await _settled(on)
        await _restarted(on)
        return "an HCA went under its pod, the kubelet restarted, and both live"


async def _foreign_ids_are_adopted(plugin: Plugin) -> str:
    """Another plugin's pod runs on when ours takes the node over."""
    async with stage(plugin, starts=False) as on:
        guid = next(one for one in on.guids().values() if one.startswith("5c25:7303:00a4"))
        path = next(
            entry
            for entry in (on.root / "dev/infiniband").glob("uverbs*")
            if on.guids().get(_node_numbers(on, entry.name)) == guid
        )
        other = GpuPlugin(on.sockets, {"theirs": 0}, resource=RESOURCE, socket="other.sock")
        other.nodes["theirs"] = (str(path),)
        await other.serve_and_register()
        await on.offers(1)
        await _running(on, "leftover")
        await other.end()
        await on.start_plugin()
        await on.comes_to_be(lambda: on.kubelet.status_of().allocatable > 1)
        await _restarted(on)
        await _new_pods(on, HCAS, HCAS - 1)
        both = on.hands().get(guid, [])
        _demand(both == ["leftover"], f"one HCA is in the hands of {', '.join(both)}")
        return "another plugin's pod kept its HCA to itself, over a restart of the kubelet"


async def _the_list_is_there_in_time(plugin: Plugin) -> str:
    """The kubelet restarts while a pod with an init container runs."""
    async with stage(plugin) as on:
        await _offered(on)
        ask = {RESOURCE: 1}
        pod = Pod(
            name="two-steps",
            containers=(ContainerSpec(requests=ask),),
            init_containers=(ContainerSpec(name="before", requests=ask),),
        )
        outcome = await on.kubelet.admit(pod)
        _demand(isinstance(outcome, Running), f"the pod does not run: {outcome}")
        for _ in range(3):
            await _restarted(on, seconds=IN_TIME_SECONDS)
            await _offered(on)
        return "three restarts of the kubelet, and a pod with an init container lives"


async def _all_ids_are_hinted_or_none(plugin: Plugin) -> str:
    """One HCA of the machine has no NUMA node."""
    async with stage(plugin, "numa-unknown-one") as on:
        await _offered(on, 2)
        bare = {one.id for one in on.kubelet.listed() if one.numa is None}
        hinted = {one.id for one in on.kubelet.listed()} - bare
        _demand(not (bare and hinted), f"{len(bare)} bare ids stand beside {len(hinted)} with hints")
        count = on.kubelet.status_of().allocatable
        outcomes = [await on.run(f"pod-{number}") for number in range(count)]
        running = sum(isinstance(one, Running) for one in outcomes)
        _demand(running == count, f"{running} of {count} HCAs on offer could be dealt")
        return f"all {count} HCAs were dealt, the one without a NUMA node among them"


async def _what_is_held_outlives_the_plugin(plugin: Plugin) -> str:
    """An HCA that a pod holds goes while the plugin is away, and the kubelet restarts behind its return."""
    async with stage(plugin) as on:
        await _offered(on)
        await _running(on, "holder")
        await on.kill_plugin()
        await on.unplug(_holder(on, "holder"))
        await on.start_plugin()
        await on.comes_to_be(lambda: on.kubelet.status_of().allocatable >= HCAS - 1)
        await _restarted(on)
        return "a plugin that was killed knew its pods again, and the kubelet lived"


async def _no_idle_hca_is_hidden(plugin: Plugin) -> str:
    """The HCA of one of seven pods falls ill, and an eighth pod comes."""
    async with stage(plugin) as on:
        await _offered(on)
        for number in range(HCAS - 1):
            await _running(on, f"pod-{number}")
        await on.set_port(_holder(on, "pod-0"), "1: DOWN")
        await _settled(on)
        _demand(await on.run_in_the_end("eighth"), "an HCA is idle, and the eighth pod waits for ever")
        _demand_one_hand_each(on)
        return "an ill HCA in a pod's hands hid no idle one from the scheduler"


async def _an_ill_hca_comes_into_no_new_hands(plugin: Plugin) -> str:
    """The HCA of a pod falls ill, the pod ends, and others come."""
    async with stage(plugin) as on:
        await _offered(on)
        await _running(on, "first")
        ill = _holder(on, "first")
        await on.set_port(ill, "1: DOWN")
        await _settled(on)
        await on.kubelet.remove("first")
        await _new_pods(on, HCAS, HCAS - 1)
        _demand(ill not in on.hands(), "a new pod got the HCA whose port is down")
        return "nobody got the HCA whose port is down"


async def _each_start_goes_by_the_numbers_of_now(plugin: Plugin) -> str:
    """The machine boots with two HCAs numbered the other way round, and the kubelet replays its old answers."""
    async with stage(plugin) as on:
        await _offered(on)
        await _running(on, "trainer")
        mine = _holder(on, "trainer")
        dealt = on.numa_node(mine)
        other = next(one for one in on.guids().values() if one.startswith("5c25") and on.numa_node(one) != dealt)
        await on.kill_plugin()
        await on.boot_the_other_way_round(mine, other)
        await on.start_plugin()
        await _restarted(on)
        await _offered(on)
        # What waits for its container's start is tried again by the kubelet.
        _demand(await on.run_in_the_end("trainer"), "the container does not start again")
        await _new_pods(on, HCAS, HCAS - 1)
        found = on.numa_node(_holder(on, "trainer"))
        _demand(found == dealt, f"dealt an HCA of NUMA node {dealt}, the container starts on one of node {found}")
        _demand_one_hand_each(on)
        return "numbers changed at a boot, and the container has an HCA where the kubelet dealt it one"


def _node_numbers(on: Stage, name: str) -> tuple[int, int]:
    text = (on.root / "sys/class/infiniband_verbs" / name / "dev").read_text().strip()
    major, _, minor = text.partition(":")
    return int(major), int(minor)


def _law(number: int, title: str, story: Callable[[Plugin], Awaitable[str]]) -> Law:
    async def told(plugin: Plugin) -> Verdict:
        try:
            return Verdict(holds=True, seen=await story(plugin))
        except _BrokenError as broken:
            return Verdict(holds=False, seen=str(broken))
        except KubeletCrashedError as error:
            return Verdict(holds=False, seen=f"the kubelet crashed: {error}")

    return Law(number=number, title=title, story=told)


LAWS: Final = (
    _law(1, "An id never leaves the list while it is held", _a_held_id_stays),
    _law(2, "Ids held under another scheme are adopted", _foreign_ids_are_adopted),
    _law(3, "The list is there before the kubelet admits its pods anew", _the_list_is_there_in_time),
    _law(4, "All ids carry a NUMA hint, or none", _all_ids_are_hinted_or_none),
    _law(6, "What is held is known again after the plugin's own end", _what_is_held_outlives_the_plugin),
    _law(7, "No idle HCA is hidden, and none is offered twice", _no_idle_hca_is_hidden),
    _law(8, "An ill HCA comes into no new hands", _an_ill_hca_comes_into_no_new_hands),
    _law(9, "Each start goes by the kernel's numbers of that moment", _each_start_goes_by_the_numbers_of_now),
)
"""The fifth, that nobody lists pods while a call is under way, does its harm by chance alone."""
