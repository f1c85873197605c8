"""From a process's start to its complete first list at the kubelet.

It must not meet what an earlier start left.
"""

import time
from typing import Final

from benchmarks.bed import Bed, bed
from benchmarks.figures import Figure, Goal, floor, spread
from benchmarks.programs import agent_program, bare_program
from benchmarks.turns import taking_turns

_PAIRS: Final = {"short": 8, "full": 30}


async def measure(profile: str) -> list[Figure]:
    """The figures."""
    async with bed() as node:

        async def agent() -> float:
            return await _start_of_agent(node)

        # The first of each compiles.
        await agent()
        await _start_of_bare()
        agents, bares = await taking_turns(agent, _start_of_bare, _PAIRS[profile])
    return [
        Figure(
            group="Start",
            what="process start to the complete list at the kubelet",
            unit="s",
            spread=spread(agents),
            floor=floor("a Python that imports grpclib, aiohttp and msgspec", bares, agents),
            goals=(Goal(of="over the floor", most=0.6),),
            note="on a node that knows no earlier agent; the kubelet's side runs in the benchmark's own process",
        )
    ]


async def _start_of_agent(node: Bed) -> float:
    node.forget()
    settings = node.set_to()
    began = time.perf_counter()
    async with agent_program(settings):
        await node.listed()
        took = time.perf_counter() - began
    # The kubelet has seen the plugin end when its list is unsound.
    await node.listed(0)
    return took


async def _start_of_bare() -> float:
    began = time.perf_counter()
    async with bare_program():
        return time.perf_counter() - began
