"""The end of a plugin's server, as its clients feel it."""

import asyncio
import socket
from pathlib import Path

import pytest

from railside_agent.plugin import DevicePlugin
from railside_agent.plugin_server import serving

_PATIENCE_S = 10.0


class _Deaf(DevicePlugin):
    """Is never asked."""

    def __init__(self) -> None:
        pass


@pytest.mark.parametrize("rounds", range(8))
async def test_whoever_has_connected_is_hung_up_on(tmp_path: Path, rounds: int) -> None:
    """However far a connection has come when the server ends, its client sees the end of it."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)  # noqa: FBT003 -- the library's
        async with serving(_Deaf(), tmp_path / "plugin.sock"):
            await loop.sock_connect(client, str(tmp_path / "plugin.sock"))
            for _ in range(rounds):
                await a_round(loop)
        async with asyncio.timeout(_PATIENCE_S):
            await _end_of(client)


async def a_round(loop: asyncio.AbstractEventLoop) -> None:
    """Return when the loop has done all that was ready."""
    over = loop.create_future()
    loop.call_soon(over.set_result, None)
    await over


async def _end_of(client: socket.socket) -> None:
    """Return when nothing more comes."""
    try:
        while await asyncio.get_running_loop().sock_recv(client, 4096):
            pass
    except ConnectionResetError:
        """It was not even accepted."""
