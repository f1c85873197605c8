from pathlib import Path

import pytest
from blockbuster import BlockingError

from railside_agent.sysfs import read_whole_machine
from railside_sim.stand_in_nodes import StandInNodes


async def test_the_guard_catches_code_that_blocks_the_loop(guarded_loop: list[str], tmp_path: Path) -> None:
    """A tree read on the loop fails where it happens, and is on record for those who swallow errors."""
    with pytest.raises(BlockingError):
        read_whole_machine(tmp_path, StandInNodes())
    assert len(guarded_loop) == 1
    guarded_loop.clear()
