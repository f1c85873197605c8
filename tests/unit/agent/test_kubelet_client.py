import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from tests.unit.running import free_port

from railside_agent.kubelet_client import LARGEST_BYTES, KubeletClient, NotToldError
from railside_agent.own_node import NodeFacts
from railside_proto.record import TopologyPolicy, TopologyScope

_TLS = Path(__file__).parents[1] / "tls"
_TOLD = {"kubeletconfig": {"topologyManagerPolicy": "restricted", "topologyManagerScope": "pod"}}


class _Kubelet:
    """A kubelet's HTTPS server, and who asked it for what."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.status = 200
        self.text = json.dumps(_TOLD)
        self.hangs = False
        self.port = 0

    @property
    def node(self) -> NodeFacts:
        return NodeFacts(seen=True, address="127.0.0.1", kubelet_port=self.port)

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.path, request.headers["Authorization"]))
        while self.hangs:
            await asyncio.Event().wait()
        return web.Response(status=self.status, text=self.text, headers={"Location": "/elsewhere"})

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(_TLS / "kubelet.crt", _TLS / "kubelet.key")
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.01)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            await runner.cleanup()


@pytest.fixture
async def kubelet() -> AsyncIterator[_Kubelet]:
    one = _Kubelet()
    async with one.serving():
        yield one


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """The folder of a service account in a cluster that signs its kubelets' certificates."""
    (tmp_path / "token").write_text("the-token\n")
    (tmp_path / "ca.crt").write_bytes((_TLS / "authority.crt").read_bytes())
    return tmp_path


async def _problem(client: KubeletClient, node: NodeFacts) -> str:
    with pytest.raises(NotToldError) as caught:
        await client.configuration(node)
    return str(caught.value)


async def test_a_kubelet_tells_its_configuration(kubelet: _Kubelet, account: Path) -> None:
    """It is asked with the service account's token, and only once it has proved to be of the cluster."""
    facts = await KubeletClient("", account=account).configuration(kubelet.node)
    assert (facts.topology_policy, facts.topology_scope) == (TopologyPolicy.RESTRICTED, TopologyScope.POD)
    assert kubelet.asked == [("/configz", "Bearer the-token")]


async def test_a_new_token_is_read_each_time(kubelet: _Kubelet, account: Path) -> None:
    """The kubelet of the pod renews its token, which lasts for an hour."""
    client = KubeletClient("", account=account)
    await client.configuration(kubelet.node)
    await asyncio.to_thread((account / "token").write_text, "the-next")
    await client.configuration(kubelet.node)
    assert [token for _, token in kubelet.asked] == ["Bearer the-token", "Bearer the-next"]


async def test_whoever_cannot_prove_it_gets_no_token(kubelet: _Kubelet, account: Path) -> None:
    """A certificate that another authority has signed ends the talk before anything is said."""
    problem = await _problem(KubeletClient(str(_TLS / "stranger.crt"), account=account), kubelet.node)
    trusted = "the kubelet's certificate cannot be trusted; say in kubeletCa who signed it"
    assert problem == f"{trusted} (unable to get local issuer certificate)"
    assert kubelet.asked == []


async def test_a_certificate_for_another_address_proves_nothing(kubelet: _Kubelet, account: Path) -> None:
    """Whose address it is must stand in the certificate, too."""
    async with _forwarding(kubelet.port) as port:
        elsewhere = NodeFacts(seen=True, address="127.0.0.2", kubelet_port=port)
        problem = await _problem(KubeletClient("", account=account), elsewhere)
    assert "cannot be trusted" in problem
    assert kubelet.asked == []


@contextlib.asynccontextmanager
async def _forwarding(to: int) -> AsyncIterator[int]:
    """The same server at another address of the loopback."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection("127.0.0.1", to)
        await asyncio.gather(_pipe(reader, ours), _pipe(theirs, writer), return_exceptions=True)

    async with await asyncio.start_server(carry, "127.0.0.2", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(4096):
        writer.write(part)
        await writer.drain()
    writer.close()


@pytest.mark.parametrize("authority", [str(_TLS / "authority.crt"), "insecure"])
async def test_another_authority_by_setting(kubelet: _Kubelet, account: Path, authority: str) -> None:
    """Where the cluster has not signed the certificate, who did is named, or checking is given up by name."""
    (account / "ca.crt").write_bytes((_TLS / "stranger.crt").read_bytes())
    await KubeletClient(authority, account=account).configuration(kubelet.node)
    assert len(kubelet.asked) == 1


@pytest.mark.parametrize(
    ("status", "word"),
    [(401, "nodes/configz"), (403, "nodes/configz"), (404, "enableDebuggingHandlers"), (500, "answered 500")],
)
async def test_a_refusal_is_told(kubelet: _Kubelet, account: Path, status: int, word: str) -> None:
    """Who is refused says what is missing."""
    kubelet.status = status
    assert word in await _problem(KubeletClient("", account=account), kubelet.node)


async def test_a_token_goes_nowhere_else(kubelet: _Kubelet, account: Path) -> None:
    """A kubelet that sends its visitors elsewhere is not followed."""
    kubelet.status = 302
    assert await _problem(KubeletClient("", account=account), kubelet.node) == "the kubelet answered 302"
    assert len(kubelet.asked) == 1


@pytest.mark.parametrize("text", ["<html>", "{}", " " * (LARGEST_BYTES + 1)], ids=["html", "empty", "endless"])
async def test_nonsense_is_told(kubelet: _Kubelet, account: Path, text: str) -> None:
    """An answer that is no configuration is none."""
    kubelet.text = text
    assert (await _problem(KubeletClient("", account=account), kubelet.node)).startswith(
        "the kubelet's configuration "
    )


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
async def test_without_credentials_nobody_is_asked(kubelet: _Kubelet, account: Path, missing: str) -> None:
    """Outside of a pod there is no token; that is told like a refusal."""
    (account / missing).unlink()
    problem = await _problem(KubeletClient("", account=account), kubelet.node)
    assert problem.startswith("there are no credentials to ask with: ")
    assert kubelet.asked == []


async def test_an_absent_kubelet_is_told(account: Path) -> None:
    """Nobody at the address, and no address, are problems and no crash."""
    client = KubeletClient("", account=account)
    nobody = NodeFacts(seen=True, address="127.0.0.1", kubelet_port=free_port())
    problem = await _problem(client, nobody)
    assert problem == f"the kubelet did not answer: Connect call failed ('127.0.0.1', {nobody.kubelet_port})"
    assert "does not say at which address" in await _problem(client, NodeFacts(seen=True))
    odd = NodeFacts(seen=True, address="fd00::%1", kubelet_port=1)
    assert (await _problem(client, odd)).startswith("the kubelet did not answer: ")


async def test_a_kubelet_that_hangs_is_left_at_the_deadline(kubelet: _Kubelet, account: Path) -> None:
    """One that takes the question and never answers costs the deadline and no more."""
    kubelet.hangs = True
    client = KubeletClient("", account=account, deadline_seconds=0.3)
    assert await _problem(client, kubelet.node) == "the kubelet did not answer within 0.3 s"
