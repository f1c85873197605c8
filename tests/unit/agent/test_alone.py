import asyncio
from pathlib import Path

from tests.unit.builders import LogLines

from railside_agent.alone import OnlyAgent

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
