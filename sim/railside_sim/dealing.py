"""Dealing ids to a container: the plugin's wish, the kubelet's choice, the plugin's Allocate.

It answers for what of this lasts (pkg/kubelet/cm/devicemanager: devicesToAllocate and the checkpoint). It must not
start the container.
"""

import random

import msgspec

from railside_proto.pb.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse
from railside_sim.plugin_client import PluginClient
from railside_sim.pods import PodRequest
from railside_sim.selection import Affinity, first_of


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What the kubelet's checkpoint keeps of a pod: its ids, sorted, and the Allocate answer it replays."""

    request: PodRequest
    seats: tuple[str, ...]
    answer: ContainerAllocateResponse


async def deal(plugin: PluginClient, request: PodRequest, near: Affinity, rng: random.Random) -> Held:
    """Picks ids of ``near``, which has enough, and asks Allocate once. Raises PluginError."""
    seats = await _pick(plugin, request.count, near, rng)
    return Held(request=request, seats=seats, answer=await plugin.allocate(seats))


async def _pick(plugin: PluginClient, count: int, near: Affinity, rng: random.Random) -> tuple[str, ...]:
    """The plugin's wish is asked only where the aligned ids leave a choice, or do not suffice."""
    choice = count < len(near.aligned)
    pool = near.aligned if choice else near.aligned | near.others
    taken = frozenset[str]() if choice else near.aligned
    if len(taken) == count:
        return tuple(sorted(taken))
    wish = await plugin.preferred(pool, taken, count)
    return first_of((taken, wish & pool, pool), count, rng)
