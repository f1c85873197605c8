import asyncio

import pytest

from railside_runtime.waiting import first_of


async def test_the_first_ends_the_wait_and_the_others() -> None:
    """When one has returned the others are cancelled, and have ended."""
    ended: list[str] = []

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("never")

    async def at_once() -> None:
        ended.append("at once")

    await first_of(never(), at_once())
    assert ended == ["at once", "never"]


async def test_an_error_is_raised() -> None:
    """What the first one raises comes to whoever waits."""

    async def fail() -> None:
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        await first_of(asyncio.Event().wait(), fail())
