"""One process: started in a session of its own, and never outliving its block."""

import asyncio
import os
import resource
import signal
from asyncio import SubprocessTransport
from asyncio.subprocess import DEVNULL, PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from mesh.errors import UnsupportedError
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason

_SECONDS_TO_DIE = 5


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What one process may use up; it may write no file at all."""

    memory: int
    """Bytes of address space."""
    cpu_seconds: int


@dataclass(frozen=True, slots=True)
class Program:
    """What to run, and the environment it gets instead of ours."""

    command: Callable[[int | None], list[str]]
    """Of the descriptor of its second output, if it has one."""
    environment: dict[str, str]


@dataclass(frozen=True, slots=True)
class Child:
    """A process and those pipes to it that end here."""

    process: Process
    stdin: asyncio.StreamWriter | None
    stdout: asyncio.StreamReader | None
    stderr: asyncio.StreamReader
    kept: asyncio.StreamReader | None
    """A second output, on the descriptor the command was built with."""


@asynccontextmanager
async def running(
    program: Program,
    ceiling: Ceiling,
    *,
    stdin: int = DEVNULL,
    stdout: int = PIPE,
    keep: bool = False,
) -> AsyncIterator[Child]:
    """Runs it until the block ends, then kills it; stdin and stdout may be descriptors."""
    async with _second_output(keep) as (kept, theirs):
        descriptor = None if theirs is None else theirs.fileno()
        process, transport = await _spawned(program, stdin, stdout, descriptor)
        try:
            if theirs is not None:
                theirs.close()  # or we would never see the child's end of it close
            _limit(process.pid, ceiling)
            assert process.stderr is not None  # noqa: S101 # asked for in _spawned
            yield Child(process, process.stdin, process.stdout, process.stderr, kept)
        finally:
            await _kill(process, transport)


async def _spawned(
    program: Program, stdin: int, stdout: int, descriptor: int | None
) -> tuple[Process, SubprocessTransport]:
    command = program.command(descriptor)
    loop = asyncio.get_running_loop()
    # What asyncio.create_subprocess_exec does, but that keeps the transport to itself.
    spawning = asyncio.ensure_future(
        loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=MAX_FRAME_BYTES, loop=loop),
            *command,
            stdin=stdin,
            stdout=stdout,
            stderr=PIPE,
            pass_fds=() if descriptor is None else (descriptor,),
            env=program.environment,
            start_new_session=True,
        )
    )
    try:
        # asyncio, cancelled halfway, would kill the child but not the children of the child.
        transport, protocol = await asyncio.shield(spawning)
        return Process(transport, protocol, loop), transport
    except asyncio.CancelledError:
        transport, protocol = await spawning
        await _kill(Process(transport, protocol, loop), transport)
        raise
    except OSError as error:
        raise UnsupportedError(
            f"{Path(command[0]).name} cannot be run: {error.strerror}", reason=Reason.TOOL_MISSING
        ) from error


@asynccontextmanager
async def _second_output(
    wanted: bool,
) -> AsyncIterator[tuple[asyncio.StreamReader | None, FileIO | None]]:
    """Our reader and the child's end of a pipe."""
    if not wanted:
        yield None, None
        return
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader(limit=MAX_FRAME_BYTES)
    with FileIO(read_end, "r") as ours, FileIO(write_end, "w") as theirs:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), ours
        )
        try:
            yield reader, theirs
        finally:
            transport.close()


def _limit(pid: int, ceiling: Ceiling) -> None:
    """A hostile file may make a decoder ask for more than the machine has."""
    limits = {
        resource.RLIMIT_AS: (ceiling.memory, ceiling.memory),
        resource.RLIMIT_CPU: (ceiling.cpu_seconds, ceiling.cpu_seconds + _SECONDS_TO_DIE),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
    }
    with suppress(AttributeError, ProcessLookupError):  # prlimit is Linux's; or it has ended
        for kind, values in limits.items():
            resource.prlimit(pid, kind, values)


async def _kill(process: Process, transport: SubprocessTransport) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    try:
        if process.stdin is not None and not process.stdin.is_closing():
            process.stdin.transport.abort()  # nobody is left to read what it still holds
        # asyncio waits for the pipes as well as for the process: nothing may be left in them.
        for stream in (process.stdout, process.stderr):
            while stream is not None and await stream.read(MAX_FRAME_BYTES):
                pass
        await process.wait()
    finally:
        transport.close()  # also if whoever waits here is cancelled once more
