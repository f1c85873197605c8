import asyncio
from pathlib import Path

import pytest
from tests.unit.builders import LogLines

from railside_agent.alone import DisplacedError, OnlyAgent
from railside_proto.names import AGENT_LOCK

_SECONDS = 10.0


async def test_a_second_agent_waits_until_the_first_has_gone(tmp_path: Path, written: LogLines) -> None:
    """Two agents on one machine would give an HCA to two containers, so the second says so and waits."""
    first, second = OnlyAgent(tmp_path, written.log), OnlyAgent(tmp_path, written.log)
    await first.until_alone()
    waiting = asyncio.create_task(second.until_alone())
    async with asyncio.timeout(_SECONDS):
        while "another agent serves this machine, and is waited for" not in written.events:
            await asyncio.wait([waiting], timeout=0.02)
        assert not waiting.done()
        first.give_up()
        await waiting
    assert written.events == ["another agent serves this machine, and is waited for"]
    second.give_up()


async def test_where_no_lock_can_be_made_the_agent_serves_all_the_same(tmp_path: Path, written: LogLines) -> None:
    """A machine whose folder is a file is told of, and not left without an agent."""
    (tmp_path / "run").write_text("")
    async with asyncio.timeout(_SECONDS):
        await OnlyAgent(tmp_path, written.log).until_alone()
    assert written.events == ["whether another agent runs cannot be told"]


async def test_a_lock_that_was_taken_away_is_made_anew(tmp_path: Path, written: LogLines) -> None:
    """Whoever empties /run/railside lets no second agent in: the lock is there again in seconds."""
    agent = OnlyAgent(tmp_path, written.log)
    await agent.until_alone()
    staying = asyncio.create_task(agent.stay(every_seconds=0.01))
    await asyncio.to_thread((tmp_path / AGENT_LOCK).unlink)
    async with asyncio.timeout(_SECONDS):
        while not written.events:
            await asyncio.wait([staying], timeout=0.02)
    assert await asyncio.to_thread((tmp_path / AGENT_LOCK).exists)
    assert written.events == ["the agents' lock was taken away, and is made anew"]
    staying.cancel()
    agent.give_up()


async def test_an_agent_whose_place_was_taken_gives_way(tmp_path: Path, written: LogLines) -> None:
    """Where another agent has the machine by now, there would be two: this one says so and ends."""
    first, second = OnlyAgent(tmp_path, written.log), OnlyAgent(tmp_path, written.log)
    await first.until_alone()
    await asyncio.to_thread((tmp_path / AGENT_LOCK).unlink)
    await second.until_alone()
    with pytest.raises(DisplacedError, match="another agent serves this machine"):
        await first.stay(every_seconds=0.01)
    first.give_up()
    second.give_up()
