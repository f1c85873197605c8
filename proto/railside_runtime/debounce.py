"""Many signs that something has changed made into few: it waits until they pause, but never for long.

It must not know what has changed, and must not lose a sign that comes while nobody waits.
"""

import asyncio
import contextlib
from typing import Final

LONGEST_SECONDS: Final = 0.2
"""A storm of signs must not put off for ever what they ask for."""

_INSTANT: Final = 0.001
"""Less than this is no wait: clocks are not exact."""


class Debounce:
    """Takes signs from one event loop, and lets one task wait for their pauses."""

    def __init__(self, seconds: float) -> None:
        """Call it a pause when no sign has come for ``seconds``."""
        self._pause = seconds
        self._longest = max(seconds, LONGEST_SECONDS)
        self._heard = asyncio.Event()
        self._last = 0.0

    def hear(self) -> None:
        """Take one sign."""
        self._last = asyncio.get_running_loop().time()
        self._heard.set()

    async def calm_within(self, seconds: float) -> bool:
        """Wait for a sign and the pause behind it: True; False when no sign has come for ``seconds``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._heard.wait()
        if not self._heard.is_set():
            return False
        await self._pause_after_signs()
        self._heard.clear()
        return True

    async def _pause_after_signs(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._longest
        # A pause is time in which nothing happens, so there is no event to wait for.
        while (left := min(self._last + self._pause, until) - loop.time()) > _INSTANT:  # noqa: ASYNC110
            await asyncio.sleep(left)
