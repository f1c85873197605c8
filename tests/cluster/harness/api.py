"""Answers for plain HTTPS questions to the API server or a kubelet, under one identity.

It must not interpret what comes back.
"""

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.pki import Certificate

TIMEOUT_S = 10
MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True)
class Answer:
    """The status and the body."""

    status: int
    body: bytes


class HttpsClient:
    """One endpoint seen as one identity: a client certificate, a bearer token, or nobody."""

    def __init__(
        self, host: str, port: int, authority: Path, certificate: Certificate | None = None, token: str = ""
    ) -> None:
        self._endpoint = (host, port)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._tls = ssl.create_default_context(cafile=str(authority))
        if certificate is not None:
            self._tls.load_cert_chain(certificate.crt, certificate.key)

    def get(self, path: str) -> Answer:
        """GET ``path``; ``OSError`` if nobody answers."""
        return self._ask("GET", path, None, self._headers)

    def post(self, path: str, body: str) -> Answer:
        """POST JSON to ``path``; ``OSError`` if nobody answers."""
        return self._ask("POST", path, body.encode(), {**self._headers, "Content-Type": "application/json"})

    def patch(self, path: str, body: str) -> Answer:
        """PATCH what is at ``path`` as JSON says (RFC 7386); ``OSError`` if nobody answers."""
        return self._ask("PATCH", path, body.encode(), {**self._headers, "Content-Type": MERGE_PATCH})

    def answers(self, path: str) -> bool:
        """True once ``path`` answers 200."""
        try:
            return self.get(path).status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    def _ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        connection = http.client.HTTPSConnection(*self._endpoint, timeout=TIMEOUT_S, context=self._tls)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Answer(response.status, response.read())
        finally:
            connection.close()
