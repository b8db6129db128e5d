"""One ffmpeg process: started in a session of its own, and never outliving its block."""

import asyncio
import os
import resource
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from mesh.errors import UnsupportedError
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason
from normalizer.command import environment


@dataclass(frozen=True, slots=True)
class Child:
    """A process and the pipes to it."""

    process: Process
    stdin: asyncio.StreamWriter | None
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    kept: asyncio.StreamReader | None
    """A second output, on the descriptor the command was built with."""


@asynccontextmanager
async def running(
    command: Callable[[int | None], list[str]], *, feed: bool, keep: bool, max_memory: int
) -> AsyncIterator[Child]:
    """Runs `command(descriptor of the second output)` until the block ends, then kills it."""
    async with _second_output(keep) as (kept, descriptor):
        try:
            process = await asyncio.create_subprocess_exec(
                *command(descriptor),
                stdin=PIPE if feed else DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                limit=MAX_FRAME_BYTES,
                pass_fds=() if descriptor is None else (descriptor,),
                env=environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise UnsupportedError(
                f"ffmpeg cannot be run: {error.strerror}", reason=Reason.TOOL_MISSING
            ) from error
        finally:
            if descriptor is not None:
                os.close(descriptor)  # or we would never see the child's end of it close
        try:
            _limit_memory(process.pid, max_memory)
            assert process.stdout is not None  # noqa: S101 # asked for above
            assert process.stderr is not None  # noqa: S101
            yield Child(process, process.stdin, process.stdout, process.stderr, kept)
        finally:
            await _kill(process)


@asynccontextmanager
async def _second_output(
    wanted: bool,
) -> AsyncIterator[tuple[asyncio.StreamReader | None, int | None]]:
    if not wanted:
        yield None, None
        return
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader(limit=MAX_FRAME_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    try:
        yield reader, write_end
    finally:
        transport.close()


def _limit_memory(pid: int, size: int) -> None:
    """A hostile file may make a decoder ask for more than the machine has."""
    with suppress(AttributeError, ProcessLookupError):  # prlimit is Linux's; or it has ended
        resource.prlimit(pid, resource.RLIMIT_AS, (size, size))


async def _kill(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        process.stdin.close()
    # asyncio waits for the pipes as well as for the process, so nothing may be left in them.
    for stream in (process.stdout, process.stderr):
        while stream is not None and await stream.read(MAX_FRAME_BYTES):
            pass
    await process.wait()
