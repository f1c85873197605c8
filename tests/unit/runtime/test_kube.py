import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.kube_server import Asked, FakeApiServer

from railside_runtime.kube import KubeApi
from railside_runtime.kube_error import UNREACHED, KubeError

NODES = "/api/v1/nodes"
EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture
async def api(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[KubeApi]:
    one = KubeApi(server.kubeconfig(tmp_path), agent="railside-test")
    yield one
    await one.close()


async def _error(api: KubeApi) -> KubeError:
    with pytest.raises(KubeError) as caught:
        await api.get(NODES, {"limit": "5"})
    return caught.value


async def test_an_answer_comes_back_as_bytes(server: FakeApiServer, api: KubeApi) -> None:
    """A question goes out with its query and the kubeconfig's token, and the body comes back untouched."""
    server.put(NODES, "n1")
    assert b'"name": "n1"' in await api.get(NODES, {"limit": "5", "fieldSelector": "metadata.name=n1"})
    query = {"limit": "5", "fieldSelector": "metadata.name=n1"}
    assert server.asked == [Asked("GET", NODES, query, "Bearer right", "application/json")]


@pytest.mark.parametrize("status", [400, 403, 404, 409, 410, 429, 500, 503])
async def test_a_refusal_has_its_status_and_the_servers_words(
    server: FakeApiServer, api: KubeApi, status: int
) -> None:
    """Whatever the server refuses is one error with the HTTP status and the sentence of the answer."""
    server.refuse = status
    error = await _error(api)
    assert (status, "no, says the server") == (error.status, error.message)


async def test_a_refusal_without_words_has_https_own(server: FakeApiServer, api: KubeApi, tmp_path: Path) -> None:
    """Something that is no API server and refuses is told by the reason of HTTP."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbad")
        await writer.drain()
        writer.close()

    server.kubeconfig(tmp_path)
    await server.stop()
    port = int(server.url.rpartition(":")[2])
    async with await asyncio.start_server(refuse, "127.0.0.1", port, reuse_address=True):
        error = await _error(api)
    assert (error.status, error.message) == (502, "Bad Gateway")


async def test_an_absent_server_is_told(server: FakeApiServer, api: KubeApi) -> None:
    """A server that is not there is the same error, with no status; once it is there it answers."""
    await server.stop()
    error = await _error(api)
    assert error.status == UNREACHED
    assert error.message.startswith("the API server cannot be reached: ")
    await server.start()
    assert b'"items": null' in await api.get(NODES, {"limit": "5"})


async def test_a_server_that_hangs_is_left_at_the_deadline(server: FakeApiServer, tmp_path: Path) -> None:
    """A server that takes the question and never answers costs the deadline and no more."""
    api = KubeApi(server.kubeconfig(tmp_path), deadline_seconds=0.2)
    server.hang = True
    error = await _error(api)
    assert (error.status, error.message) == (UNREACHED, "the API server did not answer within 0.2 s")
    with pytest.raises(KubeError, match="within"):
        async with api.watch(NODES, {"resourceVersion": "1"}):
            pass
    await api.close()


async def test_a_new_token_is_read_when_the_old_one_is_refused(
    server: FakeApiServer, api: KubeApi, tmp_path: Path
) -> None:
    """Credentials that have changed in the file are taken within the same call, without a restart."""
    await api.get(NODES, {"limit": "5"})
    server.token = "Bearer new"  # noqa: S105 -- a test's
    server.kubeconfig(tmp_path, token="new")  # noqa: S106 -- a test's
    await api.get(NODES, {"limit": "5"})
    assert [one.authorization for one in server.asked] == ["Bearer right", "Bearer right", "Bearer new"]


async def test_credentials_that_stay_refused_are_told(server: FakeApiServer, api: KubeApi) -> None:
    """Credentials that are no better when read anew are tried twice in a call, never in a loop."""
    await api.get(NODES, {"limit": "5"})
    server.token = "Bearer new"  # noqa: S105 -- a test's
    assert (await _error(api)).status == 401
    assert len(server.asked) == 3


@pytest.mark.parametrize("text", [None, "", "{}", "[]", "clusters: 5\ncurrent-context: x", "\x00"])
async def test_a_kubeconfig_that_makes_no_sense_is_told(tmp_path: Path, text: str | None) -> None:
    """A kubeconfig that is missing, empty or broken is an error like an absent server, and never a crash."""
    file = tmp_path / "broken"
    if text is not None:
        file.write_text(text)
    error = await _error(KubeApi(str(file)))
    assert error.status == UNREACHED
    assert error.message.startswith("there are no usable credentials: ")


async def test_outside_of_a_pod_there_are_no_credentials() -> None:
    """Without a kubeconfig the pod's own credentials are looked for, and their absence is told."""
    assert "there are no usable credentials: Service" in (await _error(KubeApi())).message


async def test_objects_are_made_and_changed(server: FakeApiServer, api: KubeApi) -> None:
    """A POST makes an object, and a PATCH of the kind asked for changes it."""
    await api.post(EVENTS, {"metadata": {"name": "e"}, "count": 1})
    await api.patch(f"{EVENTS}/e", {"count": 2}, "application/merge-patch+json")
    assert server.objects[EVENTS]["e"]["count"] == 2
    assert [one.content_type for one in server.asked] == ["application/json", "application/merge-patch+json"]


async def test_a_watch_gives_lines_until_it_ends(server: FakeApiServer, api: KubeApi) -> None:
    """Each change is a line, and a watch that is cut is an error to whoever reads it."""
    async with api.watch(NODES, {"resourceVersion": "100"}) as watch:
        server.put(NODES, "n1")
        line = await watch.line(5)
        assert line is not None
        assert line.startswith(b'{"type": "ADDED"')
        server.drop()
        with pytest.raises(KubeError, match="the watch broke"):
            await watch.line(5)


async def test_a_watch_that_the_server_ends_is_over(server: FakeApiServer, api: KubeApi) -> None:
    """The regular end of a watch is no error."""
    async with api.watch(NODES, {"resourceVersion": "100"}) as watch:
        server.forget()
        assert b"ERROR" in (await watch.line(5) or b"")
        assert await watch.line(5) is None


async def test_a_silent_watch_is_left_at_the_deadline(server: FakeApiServer, api: KubeApi) -> None:
    """A connection that brings nothing is given up after the time that the reader allows."""
    async with api.watch(NODES, {"resourceVersion": "100"}) as watch:
        with pytest.raises(KubeError, match=r"the watch said nothing for 0\.05 s"):
            await watch.line(0.05)
    assert len(server.asked) == 1
