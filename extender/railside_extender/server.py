"""Answers the scheduler over HTTP: the verbs, and what a person asks. It must not decide anything."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Never

from aiohttp import web

from railside_extender import wire
from railside_extender.decider import Decider
from railside_extender.pod_facts import pod_facts
from railside_runtime.cell import Cell
from railside_runtime.probes import not_listening

WAIT_SECONDS: Final = 0.05
"""How long an answer waits for pods whose way is not known yet, if they alone stand in the way."""

KEEPALIVE_SECONDS: Final = 120.0
"""Go keeps an idle connection 90 s: whoever closes it sooner breaks a request that is not tried again."""

Clock = Callable[[], float]


class AddressError(Exception):
    """Raised by ``run`` where the scheduler cannot be served; the program ends with its sentence."""


class ExtenderServer:
    """The verbs of one extender."""

    def __init__(self, decider: Decider, moved: Cell[int], *, not_ready: Callable[[], str], clock: Clock) -> None:
        """Answer by ``decider``; ``moved`` changes whenever the cluster does, ``not_ready`` says what lacks."""
        self._decider = decider
        self._moved = moved
        self._not_ready = not_ready
        self._clock = clock

    async def run(self, host: str, port: int) -> Never:
        """Serve until cancelled. Raises AddressError where the address is not to be had."""
        runner = web.AppRunner(self.application(), access_log=None, keepalive_timeout=KEEPALIVE_SECONDS)
        await runner.setup()
        try:
            await _listen(runner, host, port)
            while True:
                await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    def application(self) -> web.Application:
        """The verbs, at the root and below any prefix."""
        application = web.Application(client_max_size=wire.MOST_BYTES)
        for verb, answer in self._verbs().items():
            application.router.add_post(f"/{verb}", _answering(answer))
            application.router.add_post(f"/{{prefix:.+}}/{verb}", _answering(answer))
        return application

    def _verbs(self) -> dict[str, Callable[[bytes], Awaitable[bytes]]]:
        return {"filter": self._filter, "prioritize": self._prioritize, "preempt": self._preempt}

    async def _preempt(self, body: bytes) -> bytes:
        pod, asked = wire.preemption(body)
        proposed = {node: victims.uids for node, victims in asked.items()}
        found = self._decider.preempt(pod_facts(pod), proposed)
        return wire.preempted(
            {
                node: wire.MetaVictims(tuple(map(wire.Victim, uids)), asked[node].violations)
                for node, uids in found.items()
            }
        )

    async def _filter(self, body: bytes) -> bytes:
        problem = self._not_ready()
        if problem:
            return wire.error(problem)
        asked = wire.question(body)
        pod = pod_facts(asked.pod)
        found = self._decider.filter(pod, asked.names, self._clock())
        if found.may_pass:
            await self._until_moved()
            found = self._decider.filter(pod, asked.names, self._clock())
        return wire.filtered(asked, found.answer)

    async def _prioritize(self, body: bytes) -> bytes:
        asked = wire.question(body)
        return wire.prioritized(self._decider.prioritize(pod_facts(asked.pod), asked.names, self._clock()))

    async def _until_moved(self) -> None:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._moved.newer(self._moved.value)
        except TimeoutError:
            return


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except (OSError, UnicodeError) as error:
        raise AddressError(not_listening(host, port, error, "listenHost or listenPort")) from error


def _answering(answer: Callable[[bytes], Awaitable[bytes]]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        try:
            return web.Response(body=await answer(await request.read()), content_type="application/json")
        except wire.BadRequestError as problem:
            return web.Response(status=400, text=f"{problem}\n")

    return handle
