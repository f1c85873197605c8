"""The one error of the API server, and the answers that its callers tell apart. It must not know how to ask."""

from typing import Final

UNREACHED: Final = 0
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
CONFLICT: Final = 409
GONE: Final = 410
TOO_MANY: Final = 429
_SERVERS_FAULT: Final = 500


class KubeError(Exception):
    """Raised by KubeApi when it has no good answer; whoever asked tells it and asks again later.

    ``status`` is the HTTP status, or UNREACHED where there was no answer at all.
    """

    def __init__(self, status: int, message: str) -> None:
        """With the sentence that a person reads."""
        super().__init__(message)
        self.status = status
        self.message = message

    @property
    def may_pass(self) -> bool:
        """Whether the same question may be answered later: the server was away, overloaded or ill."""
        return self.status in {UNREACHED, TOO_MANY} or self.status >= _SERVERS_FAULT
