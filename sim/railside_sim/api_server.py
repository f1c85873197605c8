"""A small API server: one Node and its Pods, listed and watched over HTTP, and a place for Events.

It answers for what a client of the real one relies on: versions that grow, a list, a watch from a version on. It
must not judge what it is told, nor know who asks: everybody may do everything.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from aiohttp import web

from railside_sim.pod_spec import Pod

Object = dict[str, Any]

LOOPBACK: Final = "127.0.0.1"
"""Where it serves."""

_NODES: Final = "/api/v1/nodes"
_PODS: Final = "/api/v1/pods"
_EVENTS: Final = "/api/v1/namespaces/{namespace}/events"
_PATIENCE_S: Final = 20.0
_SHUTDOWN_S: Final = 1.0


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """An Event as ``kubectl describe`` shows it: the object's kind and name, a word and a sentence."""

    kind: str
    name: str
    reason: str
    message: str


class ApiServer:
    """The API server of a cluster with the one node ``node``. Use as ``async with``."""

    def __init__(self, node: str, labels: Mapping[str, str] | None = None) -> None:
        self.events: list[Told] = []
        self._node = node
        self._version = 1
        self._objects: dict[str, dict[str, Object]] = {_NODES: {}, _PODS: {}}
        self._history: list[tuple[int, str, Object]] = []
        """What a watch says: version, path and line."""
        self._news = asyncio.Condition()
        self._is_over = False
        self._runner: web.AppRunner | None = None
        self._port = 0
        self._put(_NODES, node, {"metadata": {"labels": dict(labels or {})}})

    async def __aenter__(self) -> Self:
        application = web.Application()
        for path in (_NODES, _PODS):
            application.router.add_get(path, self._get)
        application.router.add_post(_EVENTS, self._take)
        application.router.add_patch(f"{_EVENTS}/{{name}}", self._take)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_S)
        await self._runner.setup()
        await web.TCPSite(self._runner, LOOPBACK, 0).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Watches end by themselves: one that is cancelled while it waits needs longer than its server has.
        self._is_over = True
        await self._wake()
        if self._runner is not None:
            await self._runner.cleanup()

    def kubeconfig(self) -> str:
        """The text of a kubeconfig for this server, which has to serve by now."""
        content = {
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": f"http://{LOOPBACK}:{self._port}"}}],
            "users": [{"name": "anybody", "user": {}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "anybody"}}],
        }
        return json.dumps(content)

    async def label(self, name: str, value: str) -> None:
        """Sets a label of the node."""
        labels = {**self._objects[_NODES][self._node]["metadata"]["labels"], name: value}
        self._put(_NODES, self._node, {"metadata": {"labels": labels}})
        await self._wake()

    async def put_pod(self, pod: Pod) -> None:
        """A pod is bound to the node; it has its UID."""
        self._put(_PODS, pod.key, _pod(pod, self._node, "Pending"))
        await self._wake()

    async def end_pod(self, pod: str) -> None:
        """Deletes a pod whose containers have all stopped. Raises KeyError."""
        last = self._objects[_PODS].pop(pod)
        for status in last["status"]["containerStatuses"]:
            status["state"] = {"terminated": {"exitCode": 0}}
        self._note(_PODS, "DELETED", last)
        await self._wake()

    async def until_told(self, holds: Callable[[Told], bool], since: int = 0) -> Told:
        """The first Event, from number ``since`` on, for which ``holds`` does. Raises TimeoutError."""

        def found() -> Told | None:
            return next((one for one in self.events[since:] if holds(one)), None)

        async with asyncio.timeout(_PATIENCE_S), self._news:
            await self._news.wait_for(found)
        told = found()
        if told is None:
            raise AssertionError("Events never go")
        return told

    def _put(self, path: str, name: str, content: Object) -> None:
        kept = self._objects[path]
        kind = "MODIFIED" if name in kept else "ADDED"
        metadata = {"name": name, "uid": name, **content["metadata"]}
        kept[name] = {**content, "metadata": metadata}
        self._note(path, kind, kept[name])

    def _note(self, path: str, kind: str, one: Object) -> None:
        self._version += 1
        one["metadata"]["resourceVersion"] = str(self._version)
        # As it is now: the object goes on changing.
        self._history.append((self._version, path, json.loads(json.dumps({"type": kind, "object": one}))))

    async def _wake(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def _get(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await self._watch(request)
        items = list(self._objects[request.path].values())
        return web.json_response({"metadata": {"resourceVersion": str(self._version)}, "items": items})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        told = int(request.query["resourceVersion"])
        with contextlib.suppress(ConnectionError):
            while not self._is_over:
                fresh = [line for version, path, line in self._history if version > told and path == request.path]
                told = self._version
                for line in fresh:
                    await response.write(json.dumps(line).encode() + b"\n")
                await self._until_newer(told)
        return response

    async def _until_newer(self, version: int) -> None:
        async with self._news:
            await self._news.wait_for(lambda: self._is_over or self._version > version)

    async def _take(self, request: web.Request) -> web.Response:
        """An Event; one that is told again changes nothing here."""
        body = await request.json()
        if request.method == "POST":
            about = body["involvedObject"]
            self.events.append(
                Told(kind=about["kind"], name=about["name"], reason=body["reason"], message=body["message"])
            )
            await self._wake()
        return web.json_response(body, status=201)


def _pod(pod: Pod, node: str, phase: str) -> Object:
    return {
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "spec": {
            "nodeName": node,
            "containers": [_container(one.name, one.requests) for one in pod.containers],
            "initContainers": [_container(one.name, one.requests) for one in pod.init_containers],
        },
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": one.name, "state": {}} for one in pod.containers],
        },
    }


def _container(name: str, requests: Mapping[str, int]) -> Object:
    return {"name": name, "resources": {"limits": {key: str(count) for key, count in requests.items()}}}
