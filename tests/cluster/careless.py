"""A device plugin that does what a test says, right or wrong, before the kubelet of a cluster's node.

It answers for the plugin's life, driven from a test that knows no event loop. It must not know what is right.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Self, TypeVar

from railside_sim.gpu_plugin import Asked, GpuPlugin

Ids = Mapping[str, int | None]
"""NUMA nodes of a plugin's ids."""

_Value = TypeVar("_Value")


class Loop:
    """An event loop in a thread of its own, for tests that wait on other things themselves."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="plugins")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, _Value]) -> _Value:
        """What the work comes to."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class Careless:
    """A plugin of one resource, driven from outside of its loop."""

    def __init__(self, plugin: GpuPlugin, loop: Loop) -> None:
        self.plugin = plugin
        self._loop = loop
        self._serves = False

    def register(self) -> None:
        """Start, anew where it serves already, and register at the kubelet."""
        self.end()
        self._loop.run(self.plugin.serve_and_register())
        self._serves = True

    def tell(self, ids: Ids, *, sick: Collection[str] = ()) -> None:
        """Offer other ids from now on, some of them Unhealthy."""
        self._loop.run(self.plugin.tell(ids, sick=sick))

    def hold_up(self, call: str, work: Callable[[], object]) -> None:
        """Do something in each call of a kind, ``allocate`` or ``preferred``, before it is answered."""

        async def wait() -> None:
            await asyncio.to_thread(work)

        if call == "allocate":
            self.plugin.before_answer = wait
        else:
            self.plugin.before_preference = wait

    def end(self) -> None:
        """End as a process does, if it has not."""
        if self._serves:
            self._loop.run(self.plugin.end())
        self._serves = False

    @property
    def asked(self) -> list[Asked]:
        """The kubelet's calls so far."""
        return self.plugin.asked


def by_name(asked: Asked) -> list[str]:
    """Wishes for the first ids by name."""
    free = [one for one in asked.ids if one not in asked.must_include]
    return [*asked.must_include, *free][: asked.size]
