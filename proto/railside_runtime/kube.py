"""Speaks to the API server: bytes come back, and one error tells every refusal and every failure to reach it.

It must not know what an object means, and must not be needed by anything that keeps pods alive: nothing is loaded
or read before the first call, and every call has its deadline. Credentials that are refused are read anew.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import aiohttp
import msgspec

from railside_proto.decoding import UNDECODABLE
from railside_runtime import kube_transport
from railside_runtime.kube_error import UNAUTHORIZED, UNREACHED, KubeError
from railside_runtime.kube_transport import Configuration, Library, RestClient
from railside_runtime.words import words_of
from railside_runtime.worker import Worker

DEADLINE_SECONDS: Final = 30.0
"""For a whole answer, or for a watch to open."""

_MESSAGE_BYTES: Final = 64 << 10
_MESSAGE_LENGTH: Final = 300

Query = Mapping[str, str]
Patch = Literal[
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
]


class _Status(msgspec.Struct):
    message: str = ""


class _Session(msgspec.Struct, frozen=True, eq=False):
    """Credentials, and the client that was made with them."""

    configuration: Configuration
    client: RestClient


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    query: Query = {}
    content_type: str = "application/json"
    body: object = None


class Watch:
    """The lines of one open watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        """Read ``response``."""
        self._response = response

    async def line(self, deadline_seconds: float) -> bytes | None:
        """The next line; None where the server has ended the watch. Raises KubeError, at the deadline too."""
        try:
            async with asyncio.timeout(deadline_seconds):
                return await self._response.content.readline() or None
        except TimeoutError:
            raise KubeError(UNREACHED, f"the watch said nothing for {deadline_seconds:g} s") from None
        except Exception as error:
            raise KubeError(UNREACHED, f"the watch broke: {words_of(error)}") from error


class KubeApi:
    """The API server, as the pod's own service account or as a kubeconfig says. Lives on one event loop."""

    def __init__(
        self, kubeconfig: str = "", *, agent: str = "railside", deadline_seconds: float = DEADLINE_SECONDS
    ) -> None:
        """Speak as ``kubeconfig``, or where it is empty as the pod; ``agent`` is what the server's log shows."""
        self._kubeconfig = kubeconfig
        self._agent = agent
        self._deadline_seconds = deadline_seconds
        self._library: Library | None = None
        # A disk that hangs keeps this thread, and not the end of the program.
        self._worker = Worker("kube")
        self._session: _Session | None = None
        self._opening = asyncio.Lock()

    async def get(self, path: str, query: Query | None = None) -> bytes:
        """What is at ``path``. Raises KubeError."""
        return await self._answer(_Request(method="GET", path=path, query=query or {}))

    async def post(self, path: str, body: object) -> bytes:
        """Make the object ``body``, anything that msgspec encodes. Raises KubeError."""
        return await self._answer(_Request(method="POST", path=path, body=body))

    async def patch(self, path: str, body: object, content_type: Patch, query: Query | None = None) -> bytes:
        """Change the object at ``path`` as ``body`` says. Raises KubeError."""
        return await self._answer(
            _Request(method="PATCH", path=path, query=query or {}, content_type=content_type, body=body)
        )

    @contextlib.asynccontextmanager
    async def watch(self, path: str, query: Query) -> AsyncIterator[Watch]:
        """A watch at ``path`` that the server has accepted. Raises KubeError."""
        async with self._deadline():
            response = await self._accepted(_Request(method="GET", path=path, query={**query, "watch": "1"}))
        try:
            yield Watch(response)
        finally:
            response.close()

    async def close(self) -> None:
        """End every connection; a later call opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.client.close()

    async def _answer(self, request: _Request) -> bytes:
        async with self._deadline():
            response = await self._accepted(request)
            try:
                return await response.read()
            except (aiohttp.ClientError, OSError) as error:
                raise KubeError(UNREACHED, f"the answer broke off: {words_of(error)}") from error
            finally:
                response.release()

    @contextlib.asynccontextmanager
    async def _deadline(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._deadline_seconds):
                yield
        except TimeoutError:
            late = f"the API server did not answer within {self._deadline_seconds:g} s"
            raise KubeError(UNREACHED, late) from None

    async def _accepted(self, request: _Request, *, again: bool = True) -> aiohttp.ClientResponse:
        """The answer, if it is a good one; credentials that are refused are read anew, once."""
        again = again and self._session is not None
        session = await self._open()
        response = await self._ask(session, request)
        if response.ok:
            return response
        error = await _refusal(response)
        if error.status == UNAUTHORIZED:
            await self._forget(session)
            if again:
                return await self._accepted(request, again=False)
        raise error

    async def _ask(self, session: _Session, request: _Request) -> aiohttp.ClientResponse:
        headers = {"Accept": "application/json", "Content-Type": request.content_type, "User-Agent": self._agent}
        headers |= await self._credentials(session.configuration)
        try:
            return await session.client.request(
                request.method,
                session.configuration.host + request.path,
                query_params=list(request.query.items()),
                headers=headers,
                body=None if request.body is None else msgspec.to_builtins(request.body),
                _preload_content=False,
                # The deadline is ours; the library's would end a watch.
                _request_timeout=aiohttp.ClientTimeout(total=None),
            )
        except (aiohttp.ClientSSLError, ssl.SSLError) as error:
            # The authority may have changed: the next call reads it anew.
            await self._forget(session)
            raise _unreached(error) from error
        # RuntimeError and ValueError: the session was closed meanwhile, the address makes no sense.
        except (aiohttp.ClientError, OSError, RuntimeError, ValueError) as error:
            raise _unreached(error) from error

    async def _credentials(self, configuration: Configuration) -> dict[str, str]:
        """The header with the token, read anew once it is a minute old; none where a certificate speaks."""
        refresh = configuration.refresh_api_key_hook
        if refresh is not None:
            try:
                await self._worker.run(lambda: refresh(configuration), self._deadline_seconds)
            except Exception as error:
                raise KubeError(UNREACHED, f"the token could not be read: {words_of(error)}") from error
        token = configuration.api_key.get("BearerToken", "").strip()
        return {"Authorization": token} if token else {}

    async def _open(self) -> _Session:
        async with self._opening:
            if self._session is None:
                self._session = await self._opened()
            return self._session

    async def _opened(self) -> _Session:
        try:
            library, configuration = await self._worker.run(self._configure, self._deadline_seconds)
            return _Session(configuration, library.new_client(configuration))
        except Exception as error:
            # The library checks a kubeconfig by asserts and KeyErrors too; none of them may end the program.
            raise KubeError(UNREACHED, f"there are no usable credentials: {words_of(error)}") from error

    def _configure(self) -> tuple[Library, Configuration]:
        """Blocks: the import takes 0.1 s, and the files are read here."""
        library = self._library = self._library or kube_transport.load()
        configuration: Any = library.new_configuration()
        if not self._kubeconfig:
            library.load_in_cluster(client_configuration=configuration)
            return library, configuration
        if not Path(self._kubeconfig).is_file():
            raise FileNotFoundError(f"there is no file {self._kubeconfig}")
        _in_a_loop_of_its_own(
            library.load_kubeconfig(self._kubeconfig, client_configuration=configuration, persist_config=False)
        )
        return library, configuration

    async def _forget(self, session: _Session) -> None:
        if self._session is session:
            await self.close()


def _in_a_loop_of_its_own(loading: Coroutine[Any, Any, object]) -> None:
    """In the worker's thread: a kubeconfig may run programs that give credentials, and reads files."""
    asyncio.run(loading)


async def _refusal(response: aiohttp.ClientResponse) -> KubeError:
    """What the server says in its Status, or the bare HTTP reason."""
    try:
        text = await response.content.read(_MESSAGE_BYTES)
        said = msgspec.json.decode(text, type=_Status).message
    except (*UNDECODABLE, aiohttp.ClientError, OSError):
        said = ""
    finally:
        response.close()
    return KubeError(response.status, (said or response.reason or "refused")[:_MESSAGE_LENGTH])


def _unreached(error: Exception) -> KubeError:
    return KubeError(UNREACHED, f"the API server cannot be reached: {words_of(error)}")
