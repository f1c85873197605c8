"""Dealing: which ids each container gets, and the plugin's answers for them.

It answers for the order of things and for the words of each refusal (pkg/kubelet/cm/devicemanager: Allocate,
devicesToAllocate, callPreStartContainerIfNeeded). It must not merge hints, nor start containers.
"""

from collections.abc import Iterable

from railside_proto.pb.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse
from railside_sim.chance import Chance, Turn
from railside_sim.choosing import Choice, Ids, split
from railside_sim.device_memory import DeviceMemory
from railside_sim.hints import Mask, has_topology
from railside_sim.plugin_client import PluginClient, PluginError
from railside_sim.pod_devices import Dealt, Entry
from railside_sim.pod_spec import ContainerSpec, Pod
from railside_sim.pods import Refusal, unexpected

_FILTER = "filterByAffinity"
_DEALING = "allocateContainerResources"


class DeviceManager:
    """Deals from ``memory``; ``chance`` decides what the real one leaves to it."""

    def __init__(self, memory: DeviceMemory, chance: Chance) -> None:
        self._memory = memory
        self._chance = chance

    async def allocate(self, pod: Pod, container: ContainerSpec, affinity: Mask | None) -> Refusal | None:
        """Deals the container what it has not got, near ``affinity``. Raises KubeletCrashedError.

        Resources come in no particular order. What was dealt before a refusal is held until the next purge.
        """
        try:
            await self._allocate(pod, container, affinity)
        except PluginError as error:
            return unexpected(str(error))
        self._memory.reuse(pod.uid, container.name, ends=pod.is_ending(container))
        return None

    async def pre_start(self, pod: Pod, container: ContainerSpec) -> None:
        """Tells each plugin of a start, if it asked for it and has registered. Raises PluginError."""
        for resource in self._walked(container.requests, pod, container):
            if self._memory.knows(resource) and container.requests[resource]:
                await self._pre_start(pod, container, resource)

    def answers(self, pod: Pod, container: ContainerSpec) -> list[ContainerAllocateResponse]:
        """What plugins answered for the container, in no particular order."""
        held = self._memory.held.of_container(pod.uid, container.name)
        return [held[resource].answer for resource in self._walked(held, pod, container)]

    def ids(self, pod: Pod, container: ContainerSpec) -> dict[str, tuple[str, ...]]:
        """What the container holds by resource, sorted."""
        held = self._memory.held.of_container(pod.uid, container.name)
        return {resource: tuple(sorted(dealt.ids)) for resource, dealt in sorted(held.items())}

    def seats(self, pod: Pod) -> tuple[str, ...]:
        """All ids that the pod holds, sorted."""
        return tuple(
            sorted({one for entry in self._memory.held if entry.uid == pod.uid for one in entry.dealt.ids})
        )

    def _walked(self, resources: Iterable[str], pod: Pod, container: ContainerSpec) -> list[str]:
        return self._chance.order(resources, Turn(pod.key, container.name))

    async def _pre_start(self, pod: Pod, container: ContainerSpec, resource: str) -> None:
        if not self._memory.lists.has_plugin(resource):
            raise PluginError(f"endpoint not found in cache for a registered resource: {resource}")
        plugin = self._memory.lists.plugin(resource)
        if plugin is None or not plugin.is_told_of_starts:
            return
        held = self._memory.held.ids(pod.uid, container.name, resource)
        if held is None:
            raise PluginError(
                f"no devices found allocated in local cache for pod {pod.uid}, container {container.name},"
                f" resource {resource}",
            )
        await plugin.pre_start(self._chance.order(held, Turn(pod.key, container.name, resource)))

    async def _allocate(self, pod: Pod, container: ContainerSpec, affinity: Mask | None) -> None:
        walked = self._walked(container.requests, pod, container)
        resources = [each for each in walked if self._memory.knows(each)]
        if resources:
            self._memory.purge()
        dealt = [await self._deal(pod, container, resource, affinity) for resource in resources]
        if any(dealt):
            await self._memory.write()

    async def _deal(self, pod: Pod, container: ContainerSpec, resource: str, affinity: Mask | None) -> bool:
        """Whether the container got ids of the resource now; it may have them already, or have asked for 0."""
        count = container.requests[resource]
        if self._is_served(pod.uid, container.name, resource, count):
            return False
        turn = Turn(pod.key, container.name, resource)
        reusable = self._memory.reusable(pod.uid).get(resource, frozenset())
        ids = await self._choose(turn, count, affinity, reusable)
        answer = await self._ask(turn, ids)
        # By the list of this moment: an id that left it during the call is the kubelet's end.
        dealt = Dealt(by_node=self._memory.by_node(resource, ids, _DEALING), answer=answer)
        self._memory.held.insert(Entry(uid=pod.uid, container=container.name, resource=resource, dealt=dealt))
        return True

    def _is_served(self, uid: str, container: str, resource: str, count: int) -> bool:
        held = self._memory.held.ids(uid, container, resource)
        if held is not None and len(held) != count:
            raise PluginError(
                f'pod "{uid}" container "{container}" changed request for resource "{resource}"'
                f" from {len(held)} to {count}",
            )
        if not self._memory.pods.complete and self._memory.pods.found_running(uid, container):
            return True
        self._check_health(resource, held or frozenset())
        return held is not None or not count

    def _check_health(self, resource: str, held: Ids) -> None:
        healthy = self._memory.lists.healthy(resource)
        if healthy is None:
            raise PluginError(f"cannot allocate unregistered device {resource}")
        if not healthy:
            raise PluginError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if not healthy >= held:
            raise PluginError(
                "previously allocated devices are no longer healthy;"
                f" cannot allocate unhealthy devices {resource}",
            )

    async def _choose(self, turn: Turn, count: int, affinity: Mask | None, reusable: Ids) -> Ids:
        """The ids to deal; they count as allocated from here on."""
        choice = Choice(count, lambda ids: self._chance.order(ids, turn))
        choice.take(reusable)
        self._memory.count(turn.resource, choice.taken)
        if choice.missing:
            await self._choose_new(turn, affinity, choice)
        return choice.taken

    async def _choose_new(self, turn: Turn, affinity: Mask | None, choice: Choice) -> None:
        resource = turn.resource
        available = self._memory.available(resource)
        if len(available) < choice.missing:
            raise PluginError(
                f"requested number of devices unavailable for {resource}."
                f" Requested: {choice.missing}, Available: {len(available)}",
            )
        near = affinity if has_topology(self._memory.lists.listed(resource)) else None
        tiers = split(self._memory.devices(resource, available, _FILTER), near)
        wish = choice.wish(available, tiers)
        self._memory.count(resource, choice.taken)
        if wish is not None:
            offered, fixed = (self._chance.order(ids, turn) for ids in (wish.available, wish.must_include))
            preferred = await self._plugin(resource).preferred(offered, fixed, wish.size)
            choice.take(preferred & wish.usable)
            choice.fill(tiers)
            self._memory.count(resource, choice.taken)

    async def _ask(self, turn: Turn, ids: Ids) -> ContainerAllocateResponse:
        try:
            return await self._plugin(turn.resource).allocate(self._chance.order(ids, turn))
        except PluginError:
            self._memory.recount()
            raise

    def _plugin(self, resource: str) -> PluginClient:
        plugin = self._memory.lists.plugin(resource)
        if plugin is None:
            raise PluginError(f"unknown Device Plugin {resource}")
        return plugin
