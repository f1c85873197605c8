"""Starts the programs that are measured, each as a process of its own, with what its image would give it.

That is compiled files, and no rich, which only the command line has. It must not measure anything.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import IO, Final

import msgspec

from railside_agent.settings import AGENT_SETTINGS, Settings
from railside_proto.names import AGENT_ENVIRONMENT

REPOSITORY: Final = Path(__file__).parent.parent
_COMPILED: Final = REPOSITORY / "build/benchmarks/compiled"
_PATIENCE_SECONDS: Final = 10.0

WITHOUT_RICH: Final = "import sys; sys.modules['rich'] = None"
_AGENT: Final = f"{WITHOUT_RICH}; from railside_main.agent import main; raise SystemExit(main())"
_BARE: Final = "import grpclib, aiohttp, msgspec; print(flush=True); input()"

IS_ROOT: Final = os.geteuid() == 0
"""Only root can make device nodes."""


class BenchmarkError(Exception):
    """Raised where something did not happen at all; its text is for whoever runs the benchmarks."""


@contextlib.asynccontextmanager
async def agent_program(settings: Settings) -> AsyncIterator[asyncio.subprocess.Process]:
    """The agent as its image runs it; without root its runner, which gives it stand-ins for device nodes."""
    if IS_ROOT:
        command = ["-c", _AGENT, "run", *_flags(settings)]
    else:
        command = ["-m", "benchmarks.agent_runner", msgspec.json.encode(settings).decode()]
    async with _started(command) as process:
        yield process


@contextlib.asynccontextmanager
async def agent_that_hears(settings: Settings, descriptor: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """The agent with ``descriptor`` for the kernel's socket of uevents."""
    command = ["-m", "benchmarks.agent_runner", msgspec.json.encode(settings).decode(), str(descriptor)]
    async with _started(command, descriptors=(descriptor,)) as process:
        yield process


@contextlib.asynccontextmanager
async def bare_program() -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that has loaded the agent's three great libraries, and does nothing."""
    async with _started(["-c", _BARE]) as process:
        assert process.stdout is not None  # noqa: S101 -- it was asked for
        await process.stdout.readline()
        yield process


@contextlib.asynccontextmanager
async def module_program(module: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A module of the benchmarks, when it has said its first line."""
    async with _started(["-m", f"benchmarks.{module}", *arguments]) as process:
        assert process.stdout is not None  # noqa: S101 -- it was asked for
        if not await process.stdout.readline():
            raise BenchmarkError(f"benchmarks.{module} did not start")
        yield process


@contextlib.asynccontextmanager
async def _started(
    command: Sequence[str], *, descriptors: Sequence[int] = ()
) -> AsyncIterator[asyncio.subprocess.Process]:
    with tempfile.TemporaryFile() as said:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=said,
            env=_environment(),
            cwd=REPOSITORY,
            pass_fds=descriptors,
        )
        try:
            yield process
        except TimeoutError as error:
            # The innermost program may not be the one to blame: the others' words follow from its cause.
            words = f"{' '.join(command)[:60]} said:\n{_tail(said)}"
            raise BenchmarkError(f"something did not come in time; {words}") from error
        finally:
            if process.returncode is None:
                process.terminate()
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await process.wait()


def _environment() -> dict[str, str]:
    """As in a pod: nothing that sets the agent, and modules that are compiled once."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONDONTWRITEBYTECODE" and not name.startswith(AGENT_ENVIRONMENT)
    }
    return kept | {"PYTHONPYCACHEPREFIX": str(_COMPILED)}


def _flags(settings: Settings) -> list[str]:
    """Every setting that is not as it would be anyhow."""
    usual = Settings()
    flags: list[str] = []
    for field in msgspec.structs.fields(Settings):
        value = getattr(settings, field.name)
        if value != getattr(usual, field.name):
            flags += [AGENT_SETTINGS.flag(field.encode_name), str(value)]
    return flags


def _tail(said: IO[bytes]) -> str:
    said.seek(0)
    return said.read()[-2000:].decode(errors="replace")
