"""A small API server for tests: it lists, pages, watches, takes what is made or applied, and fails as asked for.

It keeps Kubernetes' rules as far as a reflector leans on them. It must not import the product.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from aiohttp import web

Object = dict[str, Any]


class Asked(NamedTuple):
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    authorization: str
    content_type: str


class FakeApiServer:
    """Objects by path; each change has a version. ``async with`` serves."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Object]] = {}
        self.asked: list[Asked] = []
        self.token = "Bearer right"  # noqa: S105 -- a test's
        self.refuse = 0
        """Answer everything with this status."""
        self.hang = False
        """Answer nothing."""
        self.mute = False
        """Open watches in which nothing will ever be said."""
        self.stutter = False
        """Say everything in a watch twice, and the line before once more."""
        self.unknown: set[str] = set()
        """Paths of kinds that nobody has defined."""
        self.page = 0
        """More than this many objects never come in one page; 0: as many as are asked for."""
        self.garbage = False
        """Answer with what is no JSON."""
        self._version = 100
        self._oldest = 0
        self._history: list[tuple[int, str, str, Object]] = []
        self._changed = asyncio.Event()
        self._bookmarks = 0
        self._connections: set[asyncio.BaseTransport] = set()
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def kubeconfig(self, folder: Path, token: str = "right") -> str:  # noqa: S107 -- a test's
        """A kubeconfig of this server."""
        content = {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "c", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        }
        target = folder / "kubeconfig"
        target.write_text(json.dumps(content))
        return str(target)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Serve, on the same port as before."""
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Be absent."""
        self.drop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def put(self, path: str, name: str, metadata: Object | None = None, **fields: object) -> Object:
        """Make the object ``name``, or change it."""
        kept = self.objects.setdefault(path, {})
        before = kept.get(name)
        self._version += 1
        uid = before["metadata"]["uid"] if before else f"uid-{name}-{self._version}"
        whole = {"uid": uid, "namespace": "default", **(metadata or {})}
        whole |= {"name": name, "resourceVersion": str(self._version)}
        kept[name] = {"metadata": whole, **fields}
        self._note("MODIFIED" if before else "ADDED", path, kept[name])
        return kept[name]

    def delete(self, path: str, name: str) -> None:
        """Delete the object ``name``, if it is there."""
        gone = self.objects.get(path, {}).pop(name, None)
        if gone is not None:
            self._version += 1
            last = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self._version)}}
            self._note("DELETED", path, last)

    def replace(self, path: str, name: str, **fields: object) -> None:
        """Delete the object ``name`` and make another of that name."""
        self.delete(path, name)
        self.put(path, name, **fields)  # type: ignore[arg-type]  # mypy cannot tell metadata from the others

    async def recover(self) -> None:
        """End every fault that keeps clients from what is there."""
        self.refuse, self.hang, self.mute, self.garbage = 0, False, False, False
        self._wake()
        if self._runner is None:
            await self.start()

    def bookmark(self) -> None:
        """Tell every watch the version now."""
        self._bookmarks += 1
        self._wake()

    def forget(self) -> None:
        """Follow nothing any more that happened before now."""
        self._version += 1
        self._oldest = self._version
        self._history.clear()
        self._wake()

    def drop(self) -> None:
        """Cut every connection."""
        for connection in self._connections:
            if isinstance(connection, asyncio.WriteTransport):
                connection.abort()
        self._connections.clear()

    async def until_asked(self, number: int, method: str = "", **query: str) -> list[Asked]:
        """Requests that match, as soon as there are ``number``."""

        def found() -> list[Asked]:
            return [
                one for one in self.asked if one.method.startswith(method) and query.items() <= one.query.items()
            ]

        async with asyncio.timeout(10):
            while len(found()) < number:
                await self._changed.wait()
        return found()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return as soon as it holds: it is looked at with each request and each change."""
        async with asyncio.timeout(20):
            while not holds():
                await self._changed.wait()

    def _note(self, kind: str, path: str, what: Object) -> None:
        self._history.append((self._version, path, kind, what))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            self._connections.add(request.transport)
        authorization = request.headers.get("Authorization", "")
        content_type = request.headers.get("Content-Type", "")
        self.asked.append(Asked(request.method, request.path, dict(request.query), authorization, content_type))
        self._wake()
        while self.hang:
            await self._changed.wait()
        if self.refuse or authorization != self.token:
            return _status(self.refuse or 401, "no, says the server")
        if self.garbage:
            return web.Response(text="<html>")
        if request.method != "GET":
            return await (self._make(request) if request.method == "POST" else self._change(request))
        return await (self._watch(request) if "watch" in request.query else self._list(request))

    async def _make(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body["metadata"]["name"] in self.objects.get(request.path, {}):
            return _status(409, "there already")
        made = self.put(request.path, body["metadata"]["name"], **body)
        return web.json_response(made, status=201)

    async def _change(self, request: web.Request) -> web.Response:
        if request.content_type == "application/apply-patch+yaml":
            return await self._apply(request)
        path, _, name = request.path.rpartition("/")
        if name not in self.objects.get(path, {}):
            return _status(404, "not found")
        kept = {key: value for key, value in self.objects[path][name].items() if key != "metadata"}
        return web.json_response(self.put(path, name, **(kept | await request.json())))

    async def _apply(self, request: web.Request) -> web.Response:
        """Server-side apply by the only writer that there is: what was applied before is replaced."""
        body = await request.json(loads=json.loads)
        path, _, name = request.path.removesuffix("/status").rpartition("/")
        there = self.objects.get(path, {}).get(name)
        if path in self.unknown or (there is None and request.path.endswith("/status")):
            return _status(404, "the server could not find the requested resource")
        kept = {key: value for key, value in (there or {}).items() if key != "metadata"}
        metadata = body["metadata"] if there is None or "status" not in body else there["metadata"]
        added = {key: value for key, value in body.items() if key != "metadata"}
        return web.json_response(self.put(path, name, metadata, **(kept | added)))

    async def _list(self, request: web.Request) -> web.Response:
        limit = min(int(request.query["limit"]), self.page or 1000)
        version, _, after = request.query.get("continue", f"{self._version}|").partition("|")
        if int(version) < self._oldest:
            return _status(410, "the continue token is too old")
        shown = sorted((name, one) for name, one in self._snapshot(request.path, int(version)) if name > after)
        more = f"{version}|{shown[limit - 1][0]}" if len(shown) > limit else ""
        metadata = {"resourceVersion": version, "continue": more}
        return web.json_response({"metadata": metadata, "items": [one for _, one in shown[:limit]] or None})

    def _snapshot(self, path: str, version: int) -> Iterator[tuple[str, Object]]:
        """The objects as they were at ``version``."""
        there = dict(self.objects.get(path, {}))
        for at, where, kind, what in reversed(self._history):
            if at > version and where == path:
                name = what["metadata"]["name"]
                there.pop(name, None)
                if kind != "ADDED":
                    before = (
                        one
                        for when, place, _, one in reversed(self._history)
                        if when < at and place == path and one["metadata"]["name"] == name
                    )
                    there[name] = next(before, what)
        yield from there.items()

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self._oldest:
            return _status(410, "too old resource version")
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            async for line in self._lines(request.path, since):
                await response.write(json.dumps(line).encode() + b"\n")
        return response

    async def _lines(self, path: str, since: int) -> AsyncIterator[Object]:
        said, before = self._bookmarks, None
        while self.mute:
            await asyncio.Event().wait()
        while True:
            changed = self._changed
            if since < self._oldest:
                yield {"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}
                return
            for version, where, kind, what in list(self._history):
                if version > since and where == path:
                    line = {"type": kind, "object": what}
                    for one in [line, line, before or line] if self.stutter else [line]:
                        yield one
                    before = line
            since = self._version
            if said != self._bookmarks:
                said = self._bookmarks
                yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(since)}}}
            await changed.wait()


def _status(code: int, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "message": message}, status=code)
