"""Answers for the question whether an HTTP endpoint serves yet.

It must not raise while the endpoint is absent: that is one of its two answers.
"""

import http.client
import urllib.error
import urllib.request
from http import HTTPStatus

TIMEOUT_S = 2


def answers(url: str) -> bool:
    """True once ``url`` answers 200."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:  # noqa: S310  # URLs of the harness
            return bool(response.status == HTTPStatus.OK)
    except (OSError, urllib.error.URLError, http.client.HTTPException):
        return False
