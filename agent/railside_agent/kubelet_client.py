"""Asks a kubelet over HTTPS how it is configured, as the pod's service account, with the right nodes/configz.

It must not need more, such as nodes/proxy, which would show and run everything; and it must not show its token to
whoever cannot prove to be the kubelet, unless told so.
"""

import asyncio
import ssl
from http import HTTPStatus
from pathlib import Path
from typing import Final, Literal

import aiohttp

from railside_agent.configz import read_configz, refusal
from railside_agent.own_node import NodeFacts
from railside_proto.names import SERVICE_ACCOUNT_DIR
from railside_proto.record import KubeletFacts, Source
from railside_runtime.words import words_of
from railside_runtime.worker import Worker

INSECURE: Final = "insecure"
"""The setting by which whoever answers at the node's address is taken for its kubelet."""

DEADLINE_SECONDS: Final = 5.0

LARGEST_BYTES: Final = 1 << 20

_TLS = ssl.SSLContext | Literal[False]


class NotToldError(Exception):
    """Raised by ``configuration`` where there was none; its text is the sentence to tell, and one asks again."""


class KubeletClient:
    """A kubelet, as a pod may speak to it."""

    def __init__(
        self,
        authority: str,
        *,
        account: Path = Path(SERVICE_ACCOUNT_DIR),
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        """Trust certificates signed by ``authority``, a file, or where it is empty by the cluster's.

        ``account`` is the folder with the service account's token and the cluster's authority.
        """
        self._token = account / "token"
        self._authority = authority or str(account / "ca.crt")
        self._deadline_seconds = deadline_seconds
        self._worker = Worker("kubelet's credentials")

    async def configuration(self, node: NodeFacts) -> KubeletFacts:
        """What the kubelet of ``node`` tells. Raises NotToldError."""
        if not node.address:
            raise NotToldError("the Node does not say at which address its kubelet is")
        host = f"[{node.address}]" if ":" in node.address else node.address
        try:
            async with asyncio.timeout(self._deadline_seconds):
                token, tls = await self._credentials()
                return await _answer(f"https://{host}:{node.kubelet_port}/configz", token, tls)
        except TimeoutError:
            raise NotToldError(f"the kubelet did not answer within {self._deadline_seconds:g} s") from None
        except (aiohttp.ClientSSLError, ssl.SSLError) as error:
            unproven = "the kubelet's certificate cannot be trusted; say in kubeletCa who signed it"
            raise NotToldError(f"{unproven} ({_in_short(error)})") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NotToldError(f"the kubelet did not answer: {_in_short(error)}") from error

    async def _credentials(self) -> tuple[str, _TLS]:
        """The token, which is a new one each hour, and whom to trust. Raises NotToldError."""
        try:
            return await self._worker.run(self._read, self._deadline_seconds)
        except (OSError, ValueError) as error:
            raise NotToldError(f"there are no credentials to ask with: {words_of(error)}") from error

    def _read(self) -> tuple[str, _TLS]:
        """Blocks."""
        token = self._token.read_text(encoding="ascii").strip()
        return token, False if self._authority == INSECURE else ssl.create_default_context(cafile=self._authority)


async def _answer(url: str, token: str, tls: _TLS) -> KubeletFacts:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as session,
        # The token is for this kubelet alone, wherever its answer might point to.
        session.get(url, headers=headers, ssl=tls, allow_redirects=False) as response,
    ):
        if response.status != HTTPStatus.OK:
            raise NotToldError(refusal(response.status))
        facts = read_configz(await _whole(response))
    if facts.source is Source.UNKNOWN:
        raise NotToldError(facts.detail)
    return facts


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    content = b""
    async for part in response.content.iter_any():
        content += part
        if len(content) > LARGEST_BYTES:
            raise NotToldError(f"the kubelet's configuration has more than {LARGEST_BYTES} bytes")
    return content


def _in_short(error: Exception) -> str:
    """What went wrong, without what the library adds: an object's place in memory is another at each try."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return cause.verify_message
    return (cause.strerror if isinstance(cause, OSError) else None) or words_of(cause)
