"""Answers the scheduler over HTTP: the verbs, and what a person asks about a pod. It must not decide anything."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Never

import msgspec
from aiohttp import web

from railside_extender import wire
from railside_extender.binder import Binder
from railside_extender.cluster import Cluster
from railside_extender.decider import Decider
from railside_extender.explanation import explain
from railside_extender.pod_facts import pod_facts
from railside_extender.telemetry import Telemetry
from railside_runtime.cell import Cell
from railside_runtime.probes import not_listening

WAIT_SECONDS: Final = 0.05
"""How long an answer waits for pods whose way is not known yet, if they alone stand in the way."""

KEEPALIVE_SECONDS: Final = 120.0
"""Go keeps an idle connection 90 s: whoever closes it sooner breaks a request that is not tried again."""

Clock = Callable[[], float]
Verb = Callable[[bytes], Awaitable[bytes]]


class AddressError(Exception):
    """Raised by ``run`` where the scheduler cannot be served; the program ends with its sentence."""


class ExtenderServer:
    """The verbs of one extender."""

    def __init__(
        self,
        cluster: Cluster,
        decider: Decider,
        telemetry: Telemetry,
        *,
        moved: Cell[int],
        not_ready: Callable[[], str],
        clock: Clock,
        binder: Binder | None = None,
    ) -> None:
        """Answer by ``decider``; ``moved`` changes whenever the cluster does, ``not_ready`` says what lacks.

        Without a ``binder`` there is no bind verb.
        """
        self._cluster = cluster
        self._decider = decider
        self._telemetry = telemetry
        self._moved = moved
        self._not_ready = not_ready
        self._clock = clock
        self._binder = binder

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
        application.router.add_get("/explain", self._explain)
        for name, verb in self._verbs().items():
            application.router.add_post(f"/{name}", self._answering(name, verb))
            application.router.add_post(f"/{{prefix:.+}}/{name}", self._answering(name, verb))
        return application

    def _verbs(self) -> dict[str, Verb]:
        verbs: dict[str, Verb] = {
            "filter": self._filter,
            "prioritize": self._prioritize,
            "preempt": self._preempt,
        }
        return verbs if self._binder is None else {**verbs, "bind": self._bind}

    def _answering(self, name: str, verb: Verb) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            began = self._clock()
            try:
                body = await request.read()
                answer = await verb(body)
            except web.HTTPRequestEntityTooLarge as problem:
                self._telemetry.refused(name, problem.status)
                raise
            except wire.BadRequestError as problem:
                self._telemetry.refused(name, web.HTTPBadRequest.status_code)
                return web.Response(status=web.HTTPBadRequest.status_code, text=f"{problem}\n")
            self._telemetry.answered(name, self._clock() - began, len(body))
            return web.Response(body=answer, content_type="application/json")

        return handle

    async def _filter(self, body: bytes) -> bytes:
        problem = self._not_ready()
        if problem:
            return wire.error(problem)
        asked = wire.question(body)
        pod = pod_facts(asked.pod)
        found = self._decider.filter(pod, asked.names, self._clock())
        patience = asyncio.get_running_loop().time() + WAIT_SECONDS
        while found.may_pass and await self._moves_before(patience):
            found = self._decider.filter(pod, asked.names, self._clock())
        if found.code:
            self._telemetry.no_node(found.code)
        self._telemetry.filtered(len(found.answer.names), len(asked.names) - len(found.answer.names))
        return wire.filtered(asked, found.answer)

    async def _prioritize(self, body: bytes) -> bytes:
        asked = wire.question(body)
        return wire.prioritized(self._decider.prioritize(pod_facts(asked.pod), asked.names, self._clock()))

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

    async def _bind(self, body: bytes) -> bytes:
        if self._binder is None:
            raise AssertionError("without a binder there is no such verb")
        return wire.error(await self._binder.bind(wire.binding(body)))

    async def _explain(self, request: web.Request) -> web.Response:
        namespace, _, name = request.query.get("pod", "").rpartition("/")
        pod = self._cluster.find(namespace or "default", name)
        if pod is None:
            sentence = "ask with ?pod=NAMESPACE/NAME for a pod that asks for HCAs or GPUs; no such pod is known\n"
            return web.Response(status=web.HTTPNotFound.status_code, text=sentence)
        found = explain(pod, self._cluster, self._decider, self._clock())
        return web.Response(body=msgspec.json.encode(found) + b"\n", content_type="application/json")

    async def _moves_before(self, moment: float) -> bool:
        """Whether the cluster changes before a moment of the loop's clock."""
        try:
            async with asyncio.timeout_at(moment):
                await self._moved.newer(self._moved.value)
        except TimeoutError:
            return False
        return True


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except (OSError, UnicodeError) as error:
        raise AddressError(not_listening(host, port, error, "listenHost or listenPort")) from error
